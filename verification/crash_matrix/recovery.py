"""What happens after a fault: the sender comes again, then a worker and a relay, until all is done.

The clock is ahead, so that every lease of the dead has run out and every pause is over, and nobody
has to wait for it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from verification.crash_matrix.bench import Bench

if TYPE_CHECKING:
    from verification.crash_matrix.flows import Flow
    from verification.crash_matrix.places import Place
    from verification.crash_matrix.shop import Terms

AHEAD = timedelta(hours=2)
ROUNDS = 6


class Ahead:
    """A clock that goes on in jumps."""

    def __init__(self, before: int) -> None:
        self._moment = datetime.now(UTC) + AHEAD * (before + 1)

    def __call__(self) -> datetime:
        """The time that is pretended."""
        return self._moment

    def jump(self) -> None:
        """Past whatever anybody waits for."""
        self._moment += AHEAD


def recover(flow: Flow, terms: Terms, place: Place) -> None:
    """Bring everything to its end, as far as duly can.

    Later than those before it: one that was killed has left leases of its own.
    """
    clock = Ahead(len(terms.journal.of("recovering")))
    terms.journal.write("recovering")
    bench = Bench(terms._replace(clock=clock), flow.make)
    bench.run(recovered(flow, bench, place, clock))


async def recovered(flow: Flow, bench: Bench, place: Place, clock: Ahead) -> None:
    """The sender's retry first: it is what comes first in the field, too."""
    await flow.again(bench, place)
    # A schedule begins when it is first seen: only the next time there is a slot for certain.
    least = 2 if flow.extra.get("slots") else 1
    for number in range(ROUNDS):
        await bench.work()
        await bench.relay()
        if number + 1 >= least and not left(place):
            return
        clock.jump()


def left(place: Place) -> int:
    """How much has not ended."""
    counted = "SELECT count(*) FROM {table} WHERE state <> 'dead'"
    return sum(
        int(place.rows(counted.format(table=table))[0][0]) for table in ("duly_jobs", "duly_outbox")
    )
