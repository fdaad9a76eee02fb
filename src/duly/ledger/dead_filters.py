"""The filters that choose dead jobs or messages, checked."""

from __future__ import annotations

import re
from datetime import datetime

from duly.core.clock import to_microseconds
from duly.core.errors import Parameter, UsageError
from duly.core.validation import kind

SHOWN = 100
# More than a person reads; to see all, ask by time.
MOST_SHOWN = 10_000
MOST_BYTES = 1000
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def checked_id(row: object, what: str = "job") -> str:
    """The id of a job or a message, as the database writes it."""
    if not isinstance(row, str) or ID.fullmatch(row) is None:
        raise UsageError(
            f"the id of a {what} must look like 0198c3a2-5d1e-7b4f-9c60-8a2f41d7e305: use the one "
            "that you were given, or that is listed among the dead letters"
        )
    return row.lower()


# Selects every dead row.
EVERYTHING = Parameter("all", "True")


def list_parameters(*names: str) -> list[str | Parameter]:
    """The parameters as parts of a sentence: ``since=, until= or name=``."""
    parts: list[str | Parameter] = []
    for left, name in zip(reversed(range(len(names))), names, strict=True):
        parts += [Parameter(name), ", " if left > 1 else " or " if left else ""]
    return parts


def checked_text(what: str, value: object) -> str:
    """A text to filter by."""
    if not isinstance(value, str):
        raise UsageError(f"{what} must be a string, not {kind(value)}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise UsageError(f"{what} must be text: a lone surrogate is in no database") from None
    if not 1 <= size <= MOST_BYTES or "\0" in value:
        raise UsageError(f"{what} must be text of 1 to {MOST_BYTES:,} bytes, without NULs")
    return value


def checked_time(what: str, value: object) -> int:
    """A point in time, in microseconds."""
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise UsageError(
            f"{what} must be an aware datetime: write datetime.now(UTC) - timedelta(hours=2)"
        )
    return to_microseconds(value)
