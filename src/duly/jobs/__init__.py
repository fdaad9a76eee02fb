"""Jobs: handlers, the transaction they run in, the queue and its leases. Internal."""
