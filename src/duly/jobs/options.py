"""The keywords of `Tx.enqueue` and `Tx.enqueue_many`, for type checkers and editors."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, timedelta


class JobOptions(TypedDict, total=False):
    """What one job and many have in common; `Duly.enqueue` explains each."""

    window: timedelta
    delay: timedelta | None
    at: datetime | None
    priority: int
    queue: str | None


class EnqueueOptions(JobOptions, total=False):
    """The options of `Duly.enqueue`, without ``tx``."""

    key: str | bytes | None


class EnqueueManyOptions(JobOptions, total=False):
    """The options of `Duly.enqueue_many`, without ``tx``."""

    keys: Iterable[str | bytes] | None
