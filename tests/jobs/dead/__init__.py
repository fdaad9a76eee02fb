"""Dead letters: listed, replayed, discarded, resolved and counted, on every store."""
