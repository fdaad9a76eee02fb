"""`duly serve` as a real process: limits, shutdown, hostile clients."""
