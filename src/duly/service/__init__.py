"""What worker and relay share: threads, the wake-up, maintenance, batched settlement. Internal."""
