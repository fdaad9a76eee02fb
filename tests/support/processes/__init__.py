"""Real processes that a test leads step by step, stops and kills."""

from .leading import Led, Worker, until

__all__ = ["Led", "Worker", "until"]
