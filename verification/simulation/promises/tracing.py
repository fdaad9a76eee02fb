"""Nothing from nowhere: I4 and I13."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from verification.simulation.callers import PARENT
from verification.simulation.errors import broken

if TYPE_CHECKING:
    from verification.simulation.facts import Facts
    from verification.simulation.schedules import Schedule


def events_were_sent(schedule: Schedule, facts: Facts) -> None:
    """I4 and I13: every event was sent, with this body, and signed."""
    for one in facts.accepted:
        if (one.event, one.fingerprint.hex()) not in schedule.post.sent:
            broken("I4", f"event {one.event} was never sent, or not with this body")


def enqueued_from(schedule: Schedule, facts: Facts) -> None:
    """I4: every job is about an event, or was enqueued by something that is committed."""
    known = {one.id for one in facts.accepted}
    parents: Counter[str] = Counter()
    for job in facts.jobs.values():
        if job.event is None:
            parents[job.payload["parent"]] += 1
        elif job.event not in known:
            broken("I4", f"job {job.id} is about an event that is not there")
    for parent, children in parents.items():
        if children > 1:
            broken("I3", f"{parent} has {children} children")
        if parent != PARENT and facts.ended.get(parent) != "done":
            broken("I4", f"{parent} is not done, and has a child")


def worked(schedule: Schedule, facts: Facts) -> None:
    """I4: every effect is of a job that was enqueued."""
    for effect in facts.effects:
        if effect.job is not None and effect.job not in facts.jobs:
            broken("I4", f"an effect of a job that is not there: {effect}")
