"""The receiver inside a web framework: each adapter takes the raw bytes first."""
