"""Claims, leases and the order guard: what inbox, jobs and outbox are built on. Internal."""
