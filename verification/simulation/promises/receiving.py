"""What a sender was told is true: I1, I5 and I14."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from duly.inbox.new_event import event_digest
from verification.simulation.errors import broken

if TYPE_CHECKING:
    from verification.simulation.facts import Accepted, Facts, Move
    from verification.simulation.schedules import Schedule
    from verification.simulation.senders import Content, Heard


def heard(schedule: Schedule, facts: Facts) -> None:
    """I1: what a sender was told is there."""
    for one in schedule.post.heard:
        found = [row for row in meant(one, facts) if row.id in facts.kept or forgets(row)]
        if not found:
            broken("I1", f"{one.content.event} was answered {one.said!r}, and is not there")


def meant(one: Heard, facts: Facts) -> list[Accepted]:
    """The rows that an answer speaks of."""
    content = one.content
    rows = facts.rows_of[content.source, content.event]
    conflict = one.said == "conflict"
    found = [row for row in rows if bool(row.flags) == conflict]
    if one.said == "duplicate":  # of the body that came first
        return found
    return [row for row in found if row.fingerprint == content.fingerprint]


def forgets(row: Accepted) -> bool:
    """Whether the source forgets its events soon, on purpose."""
    return row.scope == "brief"


def accepted_once(schedule: Schedule, facts: Facts) -> None:
    """I5 and I14: an event is accepted once for each time it was claimed; so is a body."""
    claims = claimed(facts)
    for (scope, event), rows in facts.rows_of.items():
        real = [row for row in rows if not row.flags]
        times = claims[event_digest(scope, event).hex().upper()]
        if len(real) > (times if scope == "brief" else 1):
            broken("I5", f"{event} of {scope} was accepted {len(real)} times")
    bodies = Counter(one.fingerprint for one in facts.processed if one.scope == "hook")
    if any(times > 1 for times in bodies.values()):
        broken("I14", "a body was processed under two unsigned ids")


def claimed(facts: Facts) -> Counter[str]:
    """How often each key was claimed anew; never while an earlier claim was kept."""
    times: Counter[str] = Counter()
    kept: dict[str, Move] = {}
    for move in facts.moves:
        if move.what != "claim":
            continue
        before = kept.get(move.id)
        if before is None:
            times[move.id] += 1
        elif move.epoch > before.epoch:
            times[move.id] += 1
            # Times, both: when it was claimed anew, and until when it was kept.
            if before.after == "done" and move.attempts < before.most:
                broken("I5", "a claim was taken over while it was kept")
        kept[move.id] = move
        if move.after is None:
            del kept[move.id]
    return times


def at_work_still(schedule: Schedule, facts: Facts) -> None:
    """I5: an event whose claim has run out is not accepted again while it has work left."""
    names = {one.id: (one.scope, one.event) for one in facts.processed}
    busy: dict[tuple[str, str], set[str]] = {}
    for move in facts.moves:
        job = facts.jobs.get(move.id)
        if move.what == "event" and move.id in names and busy.get(names[move.id]):
            broken("I5", f"{names[move.id][1]} was accepted again with work left to do")
        if move.what == "job" and job is not None and job.event in names:
            at_work = busy.setdefault(names[job.event], set())
            if move.after is None:
                at_work.discard(move.id)
            else:
                at_work.add(move.id)


def conflicts(schedule: Schedule, facts: Facts) -> None:
    """I14: a conflict is told as one and recorded, and never processed."""
    for one in schedule.post.heard:
        if one.content.source == "hook":
            told_apart(one, facts)
    for what in schedule.post.sent.values():
        if what.source == "hook" and not (accepted(what, facts) or flagged(what, facts)):
            broken("I14", f"a body of {what.event} was sent, and is recorded nowhere")
    for row in facts.accepted:
        if row.flags.startswith("conflict"):
            schedule.world.seen["conflicts recorded"] += 1
            if facts.jobs_of[row.id]:
                broken("I14", f"the conflict about {row.event} has jobs")


def told_apart(one: Heard, facts: Facts) -> None:
    """I14: under an unsigned id, only the body that was accepted is the event."""
    what = one.content
    if one.said == "conflict" and accepted(what, facts):
        broken("I14", f"the event {what.event} itself was answered 'conflict'")
    if one.said != "conflict" and not accepted(what, facts):
        broken("I14", f"another body of {what.event} was answered {one.said!r}")


def accepted(what: Content, facts: Facts) -> bool:
    """Whether this body is the one that was accepted under its id."""
    return any(not row.flags for row in rows_with(what, facts))


def flagged(what: Content, facts: Facts) -> bool:
    """Whether this body is recorded as a conflict under its id."""
    return any(row.flags.startswith("conflict") for row in rows_with(what, facts))


def rows_with(what: Content, facts: Facts) -> list[Accepted]:
    """The rows of an id and a body."""
    rows = facts.rows_of[what.source, what.event]
    return [row for row in rows if row.fingerprint == what.fingerprint]
