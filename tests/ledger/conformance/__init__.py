"""One suite of promises, run over every store, both colours, and every joined connection type."""
