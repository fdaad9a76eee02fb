"""What makes jobs turn: the one place that waits."""
