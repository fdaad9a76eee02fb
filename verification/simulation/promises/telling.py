"""The outbox: I11."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from verification.simulation.errors import broken

if TYPE_CHECKING:
    from verification.simulation.facts import Facts
    from verification.simulation.schedules import Schedule

SENDERS = ("pay", "hooked")


def sent(schedule: Schedule, facts: Facts) -> None:
    """I11: a message for each commit that staged one, at least one receipt, always the same id."""
    if staged(facts) != wanted(facts):
        broken("I11", f"staged: {dict(staged(facts))}, committed: {dict(wanted(facts))}")
    receipts: set[str] = set()
    for message, key, body in schedule.scene.receipts:
        if message not in facts.staged or key != message or body != facts.staged[message]:
            broken("I11", f"the receiver got {message} with key {key}, which was never staged")
        receipts.add(message)
    for message in facts.staged:
        if facts.ended.get(message) == "sent":
            if message not in receipts:
                broken("I11", f"message {message} is marked sent, and never arrived")
        elif message not in schedule.scene.refused:
            broken("I6", f"message {message} is neither sent nor refused")


def wanted(facts: Facts) -> Counter[str]:
    """What should have been staged: once by each transaction that was committed."""
    jobs = [job.id for job in facts.jobs.values() if job.name in SENDERS]
    inline = [effect.event for effect in facts.effects if effect.handler == "ring"]
    return Counter([job for job in jobs if facts.ended.get(job) == "done"] + inline)


def staged(facts: Facts) -> Counter[str]:
    """What was."""
    return Counter(json.loads(body)["job"] for body in facts.staged.values())
