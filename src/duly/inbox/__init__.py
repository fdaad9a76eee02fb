"""Stage 3 of 5: remember it once. What arrived, claimed and written in one transaction."""
