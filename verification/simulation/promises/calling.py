"""The ledger's own callers, and unhandled errors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from verification.simulation.callers import PARENT
from verification.simulation.errors import broken

if TYPE_CHECKING:
    from verification.simulation.facts import Facts
    from verification.simulation.schedules import Schedule


def called(schedule: Schedule, facts: Facts) -> None:
    """I3 and one first: one caller is first, one job for a key, one result for a fence."""
    if not schedule.callers:
        return
    books = schedule.books
    if books.firsts > 1:
        broken("I3", f"{books.firsts} callers were first")
    clerks = {job.id for job in facts.jobs_of[None] if job.payload["parent"] == PARENT}
    if len(clerks) != 1 or clerks != books.jobs:
        broken("I3", f"a key led to {len(clerks)} jobs, and {len(books.jobs)} were told")
    if len({json.dumps(result) for result in books.results}) != 1:
        broken("I3", f"one fence has the results {books.results}")


def complained(schedule: Schedule, facts: Facts) -> None:
    """No task, thread or callback of duly's ended by an unhandled error."""
    if schedule.world.complaints:
        broken("complaint", schedule.world.complaints[0])
