"""Counts of messages by destination, and the live relays; counted on request."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from duly.core.defaults import WAIT
from duly.core.exports import export_type
from duly.outbox.statements import OUTBOX_COUNTS, RELAYS_LIVE

if TYPE_CHECKING:
    from duly.core.session import Row, Runner, Session


@dataclass(frozen=True, slots=True)
class DestinationStats:
    """The messages of one destination.

    Args:
        destination: the origin of their URLs, or the name of their transport.
        ready: messages that can be sent now.
        waiting: messages whose time has not come; after an error it comes later.
        leased: messages that are being sent.
        dead: dead messages.
        oldest: how long the first of the ready ones could have been sent; None where none is.
    """

    destination: str
    ready: int
    waiting: int
    leased: int
    dead: int
    oldest: timedelta | None


@dataclass(frozen=True, slots=True)
class LiveRelay:
    """A relay that was seen within its lease."""

    id: str
    host: str
    pid: int


@export_type
@dataclass(frozen=True, slots=True)
class OutboxStats:
    """The messages of all destinations, and the live relays.

    Args:
        destinations: the destinations that have messages, by name.
        relays: the relays that live.
    """

    destinations: dict[str, DestinationStats]
    relays: tuple[LiveRelay, ...] = ()

    @property
    def ready(self) -> int:
        """Messages that can be sent now."""
        return sum(one.ready for one in self.destinations.values())

    @property
    def waiting(self) -> int:
        """Messages whose time has not come."""
        return sum(one.waiting for one in self.destinations.values())

    @property
    def leased(self) -> int:
        """Messages that are being sent."""
        return sum(one.leased for one in self.destinations.values())

    @property
    def dead(self) -> int:
        """Dead messages."""
        return sum(one.dead for one in self.destinations.values())


async def count_messages(runner: Runner) -> OutboxStats:
    """Count the rows that are in the table now; those that were sent have left it."""

    async def look(session: Session) -> OutboxStats:
        found = [destination_from(row) for row in await session.rows(OUTBOX_COUNTS)]
        relays = [
            LiveRelay(row["id"], row["host"], row["pid"]) for row in await session.rows(RELAYS_LIVE)
        ]
        return OutboxStats({one.destination: one for one in found}, tuple(relays))

    return await runner.run_autocommit(look, wait=WAIT)


def destination_from(row: Row) -> DestinationStats:
    """One destination from its row."""
    age = row["oldest"]
    return DestinationStats(
        destination=row["destination"],
        ready=row["ready"],
        waiting=row["waiting"],
        leased=row["leased"],
        dead=row["dead"],
        oldest=None if age is None else timedelta(microseconds=age),
    )
