"""Counters of deliveries, and notes on duplicates: kept in memory and written apart.

A shared counter would make every receiver wait for every other, and a note on each duplicate would
make a write of what is only a look. So both are summed here and flushed in a transaction of their
own. A process that is killed loses its last few seconds of them, and nothing else.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from duly.core.defaults import WAIT
from duly.inbox.statements import COUNTERS_ADD, DELIVERIES_NOTE

if TYPE_CHECKING:
    from duly.core.session import Runner, Session
    from duly.inbox.new_event import NewEvent

# Enough to see what a sender does; a storm of copies must fill neither memory nor a table.
NOTES_KEPT = 500
NOTES_FOR_EVENT = 50


class Note(NamedTuple):
    """One more event of a known event."""

    scope: str
    digest: bytes
    at: int
    outcome: str
    secret: str | None
    remote: str | None


class PendingCounters:
    """Sums and notes until the next flush. One thread or event loop at a time changes it."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.notes: list[Note] = []

    def __bool__(self) -> bool:
        return bool(self.counts)

    def count(self, scope: str, name: str) -> None:
        """Count one."""
        self.counts[scope, name] += 1

    def note(self, event: NewEvent, outcome: str, at: int) -> None:
        """Note one more event of a known event."""
        if len(self.notes) < NOTES_KEPT:
            self.notes.append(
                Note(
                    event.scope,
                    event.digest,
                    at,
                    outcome,
                    event.secret,
                    event.remote,
                )
            )

    def add(self, other: PendingCounters) -> None:
        """Take back what could not be written."""
        self.counts.update(other.counts)
        self.notes = (other.notes + self.notes)[:NOTES_KEPT]


async def flush(runner: Runner, tally: PendingCounters) -> None:
    """Write sums and notes in a transaction of their own."""

    async def write(session: Session) -> None:
        for note in tally.notes:
            await session.rows(DELIVERIES_NOTE, **note._asdict(), most=NOTES_FOR_EVENT)
        # Last, because every other process adds to the same rows, and waits until this is over. In
        # one order, so that two processes can wait for each other but never both ways.
        for (scope, name), n in sorted(tally.counts.items()):
            await session.rows(COUNTERS_ADD, scope=scope, name=name, n=n)

    await runner.run(write, wait=WAIT, after_loss=False)
