"""The inbox: events claimed and written once, and read back for their handlers. Internal."""
