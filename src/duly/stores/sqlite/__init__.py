"""SQLite: one machine, many processes, nothing to install."""
