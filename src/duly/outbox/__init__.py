"""Stage 5 of 5: tell the world."""
