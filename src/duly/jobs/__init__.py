"""Stage 4 of 5: do the work. Handlers, the transaction they run in, and the queue of jobs."""
