"""Workers that are killed, frozen and cut off, as real processes on real databases."""
