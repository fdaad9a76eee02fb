"""What worker and relay share: threads, wake-ups, batches of completed leases."""
