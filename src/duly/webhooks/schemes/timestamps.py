"""The time that a sender signs along: digits only, read exactly, signed as they were written."""

from __future__ import annotations

from duly.core.errors import Code, Rejected, UsageError

# Per second, with room until the year 33658; the finer units need their own digits on top.
UNITS = {"s": (1, 12), "ms": (1_000, 15), "us": (1_000_000, 18)}


def checked_unit(unit: str) -> str:
    """A unit that is known."""
    if unit not in UNITS:
        raise UsageError(f"unit must be one of {', '.join(UNITS)}, not {unit!r:.40}")
    return unit


def parse_timestamp(timestamp: bytes, unit: str) -> float:
    """A timestamp as seconds since 1970. No signs, spaces, dots, underscores or exponents."""
    per_second, digits = UNITS[unit]
    if not timestamp.isdigit() or len(timestamp) > digits:
        raise Rejected(Code.MALFORMED, "the timestamp is not a plain number")
    return int(timestamp) / per_second


def format_timestamp(timestamp: int, unit: str) -> bytes:
    """Whole seconds as this sender writes them."""
    return str(timestamp * UNITS[unit][0]).encode()
