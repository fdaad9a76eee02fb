"""The receiver inside somebody else's framework: each adapter takes the raw bytes first."""
