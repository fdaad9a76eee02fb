"""Jobs at work, on every store, in both colours, with a transaction and without."""
