"""What duly promises, tried."""
