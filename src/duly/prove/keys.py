"""The keys that jobs make: a call that holds one can be known again, wherever in it that stands."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from duly.jobs.job import OneJob
from duly.prove.steps.watching import replaced

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of this process; the next one makes the same keys.
made: set[str] = set()


@contextmanager
def noted() -> Iterator[None]:
    """Note each key that `job.key` makes inside the block."""
    make = OneJob.key

    def key(self: OneJob, name: str) -> str:
        found = make(self, name)
        made.add(found)
        return found

    with replaced(OneJob, "key", key):
        yield


def held(*texts: str) -> str | None:
    """The keys that stand in a text, in an order that is always the same."""
    return " ".join(sorted(key for key in made if any(key in text for text in texts))) or None
