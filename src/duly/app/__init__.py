"""The application: sources, handlers, jobs and outbox behind one object."""
