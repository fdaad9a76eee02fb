"""The promises, checked at the end of a schedule: I1 to I14 of the design, but for I12.

Each check believes the journals of the world and what was committed, and nothing that duly says of
itself.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, NoReturn

from duly._kernel.clock import MICROSECOND
from duly._kernel.retry import RESCUE_LIMIT
from duly._kernel.states import CLAIM_MOVES, JOB_MOVES, MESSAGE_MOVES
from duly.outbox.leases import MOST_RESCUES
from simulation.application import BRIEF
from simulation.callers import PARENT
from simulation.errors import Violation
from simulation.facts import Facts
from simulation.scripts import handlers_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulation.facts import Accepted, Enqueued, Move
    from simulation.schedules import Schedule

# What is done has left the table.
GONE = {"done": None, "sent": None}
TABLES = {
    "job": {(one.before, GONE.get(str(one.after), one.after)) for one in JOB_MOVES},
    "message": {(one.before, GONE.get(str(one.after), one.after)) for one in MESSAGE_MOVES},
    # A claim whose time is over is removed.
    "claim": {(one.before, one.after) for one in CLAIM_MOVES} | {("done", None), ("held", None)},
}
RESCUES = {"job": RESCUE_LIMIT, "message": MOST_RESCUES}
# The least that must have gone wrong before an honest job may be dead.
BAD_LUCK = 4
BRIEFLY = BRIEF // MICROSECOND


def broken(promise: str, told: str) -> NoReturn:
    """A promise is broken."""
    raise Violation(promise, told)


def check(schedule: Schedule) -> None:
    """Check every promise."""
    facts = Facts(schedule.world.database)
    for promise in (
        heard, accepted_once, at_work_still, conflicts, from_nowhere, handled, ended, moved, leased, sent, ordered,
        called, complaints,
    ):  # fmt: skip
        promise(schedule, facts)


def heard(schedule: Schedule, facts: Facts) -> None:
    """I1: what a sender was told is there."""
    for one in schedule.post.heard:
        content = one.content
        rows = facts.rows_of[content.source, content.event]
        if one.said == "conflict":
            found = [row for row in rows if row.flags.startswith("conflict")]
        else:
            found = [row for row in rows if not row.flags]
        if one.said in ("accepted", "conflict"):
            found = [row for row in found if row.fingerprint == content.fingerprint]
        if content.source != "brief":  # which forgets on purpose
            found = [row for row in found if row.id in facts.kept]
        if not found:
            broken("I1", f"{content.event} was answered {one.said!r}, and is not there")


def accepted_once(schedule: Schedule, facts: Facts) -> None:
    """I5: an event is accepted once, until its claim is forgotten."""
    del schedule
    for (scope, event), rows in facts.rows_of.items():
        real = [row for row in rows if not row.flags]
        if scope != "brief" and len(real) > 1:
            broken("I5", f"{event} of {scope} was accepted {len(real)} times")
        for before, after in zip(real, real[1:], strict=False):
            if after.at - before.at < BRIEFLY:
                broken("I5", f"{event} was accepted again while its claim was kept")
    bodies = Counter(one.fingerprint for one in facts.processed if one.scope == "hook")
    if any(times > 1 for times in bodies.values()):
        broken("I14", "a body was processed under two ids that nobody has signed")


def at_work_still(schedule: Schedule, facts: Facts) -> None:
    """I5: an event whose claim has run out is not accepted again while it has work left."""
    del schedule
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
    """I14: a conflict is recorded and never processed."""
    for one in facts.accepted:
        if one.flags.startswith("conflict"):
            schedule.world.seen["conflicts recorded"] += 1
            if facts.jobs_of[one.id]:
                broken("I14", f"the conflict about {one.event} has jobs")


def from_nowhere(schedule: Schedule, facts: Facts) -> None:
    """I4 and I13: everything traces to a genuine delivery, or to a job that was enqueued."""
    for one in facts.accepted:
        if (one.event, one.fingerprint.hex()) not in schedule.post.sent:
            broken("I4", f"event {one.event} was never sent, or not with this body")
    known = {one.id: one for one in facts.accepted}
    parents: Counter[str] = Counter()
    for job in facts.jobs.values():
        if job.event is not None:
            if job.event not in known:
                broken("I4", f"job {job.id} is about an event that is not there")
        else:
            parents[job.payload["parent"]] += 1
    for parent, children in parents.items():
        if children > 1:
            broken("I3", f"{parent} has {children} children")
        if parent != PARENT and facts.ended.get(parent) != "done":
            broken("I4", f"{parent} is not done, and has a child")
    for effect in facts.effects:
        if effect.job is not None and effect.job not in facts.jobs:
            broken("I4", f"an effect of a job that is not there: {effect}")


def handled(schedule: Schedule, facts: Facts) -> None:
    """I2 and I3: each event had each of its effects, once."""
    for one in facts.processed:
        source, kind = schedule.script.events[one.event]
        if source == "till":
            rung(schedule, facts, one)
            continue
        jobs = facts.jobs_of[one.id]
        if sorted(job.name for job in jobs) != sorted(handlers_of(source, kind)):
            broken("I2", f"{one.event} has the jobs {[job.name for job in jobs]}")
        for job in jobs:
            handled_by(schedule, facts, one, job)
    for job in facts.jobs.values():
        if job.event is None:
            expect(facts, job, facts.ended.get(job.id) == "done", None)
    if facts.counter != sum(effect.amount for effect in facts.effects):
        broken("I3", f"the counter is {facts.counter}, the effects say otherwise")


def rung(schedule: Schedule, facts: Facts, one: Accepted) -> None:
    """What was handled inline has its effect, because it is there."""
    effects = [effect for effect in facts.effects_of[None] if effect.event == one.event]
    if len(effects) != 1:
        broken("I3" if effects else "I2", f"{one.event} has {len(effects)} effects")
    if effects[0].amount != amount_of(schedule, one):
        broken("I14", f"{one.event} was handled with another body than it was accepted with")


def handled_by(schedule: Schedule, facts: Facts, one: Accepted, job: Enqueued) -> None:
    """What one handler did about an event."""
    done = facts.ended.get(job.id) == "done"
    if job.name == "charge":
        key = facts.keys.get(job.id)
        if done and (key not in schedule.scene.charges or facts.outcomes[job.id, "charge"] != "done"):
            broken("I2", f"{one.event} is done, and nothing was charged")
        return
    expect(facts, job, done, amount_of(schedule, one))
    if done and job.name == "pay" and job.id not in children(facts):
        broken("I2", f"{job.id} is done, and its child was never enqueued")


def children(facts: Facts) -> set[str]:
    """The parents of all children."""
    return {job.payload["parent"] for job in facts.jobs.values() if job.event is None}


def amount_of(schedule: Schedule, one: Accepted) -> int:
    """What an event is about, from the body that was accepted."""
    content = schedule.post.sent[one.event, one.fingerprint.hex()]
    return int(json.loads(content.body)["amount"])


def expect(facts: Facts, job: Enqueued, done: bool, amount: int | None) -> None:  # noqa: FBT001
    """One effect of a job that is done, by the lease that ended it; none of any other."""
    effects = facts.effects_of[job.id]
    if len(effects) > done:
        broken("I3", f"job {job.id} ({job.name}) has {len(effects)} effects")
    if len(effects) < done:
        broken("I2", f"job {job.id} ({job.name}) is done without its effect")
    for effect in effects:
        last = max(move.epoch for move in facts.moves if move.id == job.id)
        if effect.epoch != last:
            broken("I8", f"the effect of {job.id} is of lease {effect.epoch}, its end of {last}")
        if amount is not None and effect.amount != amount:
            broken("I14", f"{job.id} handled another body than was accepted")


def ended(schedule: Schedule, facts: Facts) -> None:
    """I6 and I9: all is done or dead, and what is dead has a reason."""
    nemesis, scene = schedule.world.nemesis, schedule.scene
    luck = nemesis.costly + sum(
        n for fault, n in schedule.world.faults.items() if fault.startswith("effect")
    )
    events = {one.id: one.event for one in facts.accepted}
    for job in facts.jobs.values():
        done, dead = job.id in facts.ended, job.id in facts.dead
        if done == dead:
            broken("I7" if done else "I6", f"job {job.id} is {'both' if done else 'neither'}"
                   " of done and dead")  # fmt: skip
        plan = None if job.event is None else scene.plans.get((events[job.event], job.name))
        if plan is not None and plan.hopeless:
            if facts.ended.get(job.id) == "done":
                broken("I9", f"{plan.name} never succeeds, and is done")
        elif dead and schedule.operators.replayed:
            broken("I6", f"job {job.id} was replayed when all was well, and is dead")
        elif dead and not (plan is not None and plan.asks == "park" and job.name == "charge"):
            schedule.world.seen["honest jobs that died of bad luck"] += 1
            if luck + (0 if plan is None else plan.fails) < BAD_LUCK:
                broken("I9", f"job {job.id} ({job.name}) is dead, and little went wrong")


def moved(schedule: Schedule, facts: Facts) -> None:
    """I7 and I9: one state at a time, along the table; and no counter beyond its limit."""
    del schedule
    left: set[str] = set()
    over: Counter[str] = Counter()
    for move in facts.moves:
        if move.what == "history":
            over[move.id] += 1
        if move.what not in TABLES:
            continue
        if (move.before, move.after) not in TABLES[move.what]:
            broken("I7", f"{move.what} {move.id} went from {move.before} to {move.after}")
        if move.what == "claim":
            continue
        if move.attempts > move.most or move.rescues > RESCUES[move.what]:
            broken("I9", f"{move.what} {move.id} has {move.attempts} attempts, {move.rescues} rescues")
        if move.before == "leased" and move.after is None:
            left.add(move.id)
    if any(times > 1 for times in over.values()) or left != set(over):
        broken("I7", "a job or message was done twice, or left without a trace")


def leased(schedule: Schedule, facts: Facts) -> None:
    """I10: epochs only grow, and no two leases share a token."""
    seen = schedule.world.seen
    epochs: dict[tuple[str, str], int] = {}
    tokens: set[bytes] = set()
    for move in facts.moves:
        if move.what not in TABLES:
            continue
        name = move.what, move.id
        before = epochs.get(name, 0)
        taken = move.after == "leased"
        if move.epoch < before or (taken and move.epoch <= before):
            broken("I10", f"the epoch of {move.what} {move.id} went from {before} to {move.epoch}")
        epochs[name] = 0 if move.what == "claim" and move.after is None else move.epoch
        if taken:
            if move.token is None or move.token in tokens:
                broken("I10", f"a token of {move.what} {move.id} was used before")
            tokens.add(move.token)
        if move.what == "claim" and move.epoch > before > 0:
            seen["claims taken over"] += 1
    rescued = count_rescues(seen, facts.moves)
    faults = schedule.world.nemesis.costly + schedule.world.faults["handler kills its process"]
    for name, rescues in rescued.items():
        if rescues > faults:
            broken("I9", f"{name} lost its lease {rescues} times, to {faults} faults")


def count_rescues(seen: Counter[str], moves: Sequence[Move]) -> Counter[str]:
    """How often each lease was taken back, or given up half-way."""
    last: dict[str, int] = {}
    rescued: Counter[str] = Counter()
    for move in moves:
        if move.what in ("job", "message"):
            if move.before == "leased" and move.rescues > last.get(move.id, 0):
                seen[f"{move.what}s rescued"] += 1
                rescued[f"{move.what} {move.id}"] += 1
            if move.after == "dead":
                seen[f"{move.what}s dead"] += 1
            last[move.id] = move.rescues
    return rescued


def sent(schedule: Schedule, facts: Facts) -> None:
    """I11: a message for each commit that staged one, at least one receipt, always the same id."""
    scene = schedule.scene
    wanted = Counter(
        [job.id for job in facts.jobs.values()
         if job.name in ("pay", "hooked") and facts.ended.get(job.id) == "done"]
        + [effect.event for effect in facts.effects if effect.handler == "ring"]
    )  # fmt: skip
    staged = Counter(json.loads(body)["job"] for body in facts.staged.values())
    if staged != wanted:
        broken("I11", f"staged: {dict(staged)}, committed: {dict(wanted)}")
    receipts: set[str] = set()
    for message, key, body in scene.receipts:
        if message not in facts.staged or key != message or body != facts.staged[message]:
            broken("I11", f"the receiver got {message} with key {key}, which nobody staged")
        receipts.add(message)
    for message in facts.staged:
        if facts.ended.get(message) == "sent":
            if message not in receipts:
                broken("I11", f"message {message} is marked sent, and never arrived")
        elif message not in facts.dead_messages or message not in scene.refused:
            broken("I6", f"message {message} is neither sent nor refused")


def ordered(schedule: Schedule, facts: Facts) -> None:
    """The order guard: versions only move forward, and the newest that was handled is there."""
    del schedule
    versions = [version for _, version, _ in facts.applied]
    if versions != sorted(set(versions)):
        broken("I2", f"versions were applied in the order {versions}")


def called(schedule: Schedule, facts: Facts) -> None:
    """The ledger's callers: one first, one job for a key, one result for a fence."""
    if not schedule.callers:
        return
    books = schedule.books
    if books.firsts > 1:
        broken("I3", f"{books.firsts} callers were first")
    clerks = [job for job in facts.jobs.values() if job.payload.get("parent") == PARENT]
    if len(books.jobs) != 1 or {job.id for job in clerks} != books.jobs:
        broken("I3", f"a key led to {len(clerks)} jobs, and {len(books.jobs)} were told")
    if len({json.dumps(result) for result in books.results}) != 1:
        broken("I3", f"one fence has the results {books.results}")


def complaints(schedule: Schedule, facts: Facts) -> None:
    """No task, thread or callback of duly's ended by an error that nobody heard."""
    del facts
    if schedule.world.complaints:
        broken("complaint", schedule.world.complaints[0])
