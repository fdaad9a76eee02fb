"""The worker: fetches jobs, runs their handlers and settles them. Internal."""
