"""Each event has each of its effects once, and comes to an end: I2, I3, I6, I8 and I9."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from verification.simulation.errors import broken
from verification.simulation.scripts import handlers_of

if TYPE_CHECKING:
    from verification.simulation.facts import Accepted, Enqueued, Facts
    from verification.simulation.scene import Plan
    from verification.simulation.schedules import Schedule

# The least that must have gone wrong before an honest job may be dead.
BAD_LUCK = 4


def handled(schedule: Schedule, facts: Facts) -> None:
    """I2, I3 and one transaction: each event had each of its effects, once."""
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
    for job in facts.jobs_of[None]:
        expect(facts, job, None)
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
        if done and not charged(schedule, facts, job):
            broken("I2", f"{one.event} is done, and nothing was charged")
        return
    expect(facts, job, amount_of(schedule, one))
    parents = {child.payload["parent"] for child in facts.jobs_of[None]}
    if done and job.name == "pay" and job.id not in parents:
        broken("I2", f"{job.id} is done, and its child was never enqueued")


def charged(schedule: Schedule, facts: Facts, job: Enqueued) -> bool:
    """Whether the bank knows of the one step that a job took outside, by its one key."""
    key = facts.keys.get(job.id)
    known = facts.outcomes.get((job.id, "charge")) == "done"
    return known and key in schedule.scene.charges


def amount_of(schedule: Schedule, one: Accepted) -> int:
    """What an event is about, from the body that was accepted."""
    content = schedule.post.sent[one.event, one.fingerprint.hex()]
    return int(json.loads(content.body)["amount"])


def expect(facts: Facts, job: Enqueued, amount: int | None) -> None:
    """One effect of a job that is done, by the lease that ended it; none of any other."""
    effects, done = facts.effects_of[job.id], facts.ended.get(job.id) == "done"
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
    """I6, I7 and I9: all is done or dead, and what is dead has a reason."""
    events = {one.id: one.event for one in facts.accepted}
    for job in facts.jobs.values():
        done, dead = job.id in facts.ended, job.id in facts.dead
        if done == dead:
            told = "both done and dead" if done else "neither done nor dead"
            broken("I7" if done else "I6", f"job {job.id} is {told}")
        plan = None
        if job.event is not None:
            plan = schedule.scene.plans.get((events[job.event], job.name))
        if dead:
            died(schedule, job, plan)
        elif plan is not None and plan.hopeless and facts.ended[job.id] == "done":
            broken("I9", f"{plan.name} never succeeds, and is done")


def died(schedule: Schedule, job: Enqueued, plan: Plan | None) -> None:
    """I9: a job that kills or never succeeds is dead; its neighbours are not."""
    world = schedule.world
    if schedule.operators.replayed:
        broken("I6", f"job {job.id} was replayed when all was well, and is dead")
    if plan is not None and (plan.hopeless or (plan.asks == "park" and job.name == "charge")):
        return
    world.seen["honest jobs that died of bad luck"] += 1
    effects = sum(n for fault, n in world.faults.items() if fault.startswith("effect"))
    if world.nemesis.costly + effects + (0 if plan is None else plan.fails) < BAD_LUCK:
        broken("I9", f"job {job.id} ({job.name}) is dead, and little went wrong")


def ordered(schedule: Schedule, facts: Facts) -> None:
    """I2: the versions of an object only move forward."""
    versions = [version for _, version, _ in facts.applied]
    if versions != sorted(set(versions)):
        broken("I2", f"versions were applied in the order {versions}")
