"""The promises, checked at the end of a schedule: I1 to I14 of the design, but for I12.

Each check believes the journals of the world and what was committed, and nothing that duly says of
itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from verification.simulation.facts import Facts
from verification.simulation.promises.calling import called, complained
from verification.simulation.promises.handling import ended, handled, ordered
from verification.simulation.promises.leasing import leased, moved, rescued
from verification.simulation.promises.receiving import (
    accepted_once,
    at_work_still,
    conflicts,
    heard,
)
from verification.simulation.promises.telling import sent
from verification.simulation.promises.tracing import enqueued_from, events_were_sent, worked

if TYPE_CHECKING:
    from verification.simulation.schedules import Schedule

PROMISES = (
    *(heard, accepted_once, at_work_still, conflicts),
    *(events_were_sent, enqueued_from, worked),
    *(handled, ended, ordered),
    *(moved, leased, rescued),
    sent,
    *(called, complained),
)


def check(schedule: Schedule) -> None:
    """Check every promise; the first that is broken is raised."""
    facts = Facts(schedule.world.database)
    for promise in PROMISES:
        promise(schedule, facts)
