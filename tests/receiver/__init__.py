"""What the receiving path promises, on every store, behind both servers, in every way to work."""
