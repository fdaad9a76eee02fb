"""The promises, checked at the end of a schedule: I1 to I14 of the design, but for I12.

Each check believes the journals of the world and what was committed, and nothing that duly says of
itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulation.facts import Facts
from simulation.promises.calling import called, complained
from simulation.promises.handling import ended, handled, ordered
from simulation.promises.leasing import leased, moved, rescued
from simulation.promises.receiving import accepted_once, at_work_still, conflicts, heard
from simulation.promises.telling import sent
from simulation.promises.tracing import enqueued_from, sent_by_somebody, worked

if TYPE_CHECKING:
    from simulation.schedules import Schedule

PROMISES = (
    *(heard, accepted_once, at_work_still, conflicts),
    *(sent_by_somebody, enqueued_from, worked),
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
