"""The keys that jobs make: a call that holds one can be known again, wherever in it that stands."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from duly.jobs.job import BaseJob
from duly.prove.steps.watching import replace_attribute

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of this process; the next one makes the same keys.
recorded_keys: set[str] = set()


@contextmanager
def record_keys() -> Iterator[None]:
    """Note each key that `job.key` makes inside the block."""
    make = BaseJob.key

    def key(self: BaseJob, name: str) -> str:
        found = make(self, name)
        recorded_keys.add(found)
        return found

    with replace_attribute(BaseJob, "key", key):
        yield


def find_keys(*texts: str) -> str | None:
    """The keys that stand in a text, in an order that is always the same."""
    return (
        " ".join(sorted(key for key in recorded_keys if any(key in text for text in texts))) or None
    )
