"""What was ordered, what was paid, and what is left."""
