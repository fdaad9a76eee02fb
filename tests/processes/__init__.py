"""Real processes that a test leads step by step, stops and kills."""

from .leading import Worker, until

__all__ = ["Worker", "until"]
