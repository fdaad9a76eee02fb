"""The core: pure functions, no database."""
