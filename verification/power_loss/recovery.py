"""The power is back: senders retry, a worker and a relay run, and then the books must be exact."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from verification.power_loss.flows import delivery
from verification.power_loss.looking import doubled
from verification.power_loss.shop import TABLES, Clock, Restless, bring_to_rest, shop

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duly
    from verification.power_loss.looking import Database, Seen
    from verification.power_loss.promises import World

# How long the power was away: longer than any lease.
AWAY = timedelta(hours=1)
# Longer than a job that lost its worker waits for the next.
PAUSE = timedelta(minutes=10)
# The effects that each kind of event leads to in the database.
EFFECTS = {
    "paid": ("record", "pack"),
    "ring": ("ring", "pack"),
    "moody": ("moody",),
    "broken": ("broken",),
    "poison": (),
}
MAILED = ("paid", "moody")
HOUR = timedelta(hours=1)


def recover(database: Database, world: World) -> Iterator[str]:
    """Open the database with duly, bring everything to rest, and say what is wrong then."""
    moment = world.moment or datetime.now(UTC)
    clock = Clock(moment + AWAY - datetime.now(UTC))
    app = shop(database.url, world.hear, clock, scheduled=True)
    with closing(app):
        app.store.open()
        database.run(TABLES)  # whoever was creating them does so again
        yield from retry(app, world, clock)
        try:
            bring_to_rest(app, clock, PAUSE)
            repair(app, world)
            bring_to_rest(app, clock, PAUSE)
        except Restless as problem:
            yield f"{problem} (I6)"
            return
        dead = sorted(one.name for one in app.jobs.dead(limit=1000))
    yield from audit(database.look(), world)
    poisoned = sum(kind == "poison" for _, kind in world.sent.values())
    if dead != ["poison"] * poisoned:
        yield f"the dead letters should be {poisoned} of poison, and are {dead} (I6)"


def retry(app: duly.Duly, world: World, clock: Clock) -> Iterator[str]:
    """Senders repeat what was not answered, and also what was; so does who enqueues by a key."""
    for name, (source, kind) in list(world.sent.items()):
        if not world.remembers(name):
            continue
        signed = delivery(name, kind, clock)
        reply = app.receive(source, signed.headers, signed.body)
        wanted = ("duplicate",) if name in world.answered else ("accepted", "duplicate")
        if reply.status != 200 or reply.said not in wanted:
            yield f"{name} was answered {reply.status} {reply.said}, not {' or '.join(wanted)} (I5)"
    for name, kind in world.asked.items():
        if name.startswith("keyed-"):
            app.enqueue(kind, {"order": name}, key=name)


def repair(app: duly.Duly, world: World) -> None:
    """Somebody sees to what is broken, and has it replayed."""
    with app.transaction() as tx:
        for name, (_, kind) in world.sent.items():
            if kind == "broken":
                tx.execute("INSERT INTO repairs (name) VALUES (:name)", name=name)
    app.jobs.replay(source="orders", type="broken")


def audit(seen: Seen, world: World) -> Iterator[str]:
    """Every effect once, every message at least once and always the same, and nothing else."""
    if seen.sound != "ok":
        yield f"the database is not sound after recovery: {seen.sound}"
    yield from doubled(seen)
    expected = {name for name in world.sent if world.remembers(name)}
    events = {name for name in seen.events if world.remembers(name)}
    if events != expected:
        yield f"the events should be {sorted(expected)}, and are {sorted(events)} (I1, I4)"
    yield from audit_effects(seen, world)
    yield from audit_calls(world)
    slots = sorted(datetime.fromisoformat(name) for kind, name in seen.effects if kind == "sweep")
    if any(later - earlier != HOUR for earlier, later in pairwise(slots)):
        yield f"a slot of the schedule is missing: {[slot.isoformat() for slot in slots]} (I2)"


def audit_effects(seen: Seen, world: World) -> Iterator[str]:
    """What was done in the database, against what should have been."""
    wanted = {(effect, name) for name, (_, kind) in world.sent.items() for effect in EFFECTS[kind]}
    maybe: set[tuple[str, str]] = set()
    for name, kind in world.asked.items():
        certain = name.startswith("keyed-") or name in world.enqueued
        (wanted if certain else maybe).add((kind, name))
    wanted = {one for one in wanted if one[0] != "remind"}
    there = {one for one in seen.effects if one[0] != "sweep"}
    if lost := wanted - there:
        yield f"these effects are lost: {sorted(lost)} (I2)"
    if surplus := there - wanted - maybe:
        yield f"these effects come from nowhere: {sorted(surplus)} (I4)"


def audit_calls(world: World) -> Iterator[str]:
    """What was done outside, against what should have been: at least once, with one key."""
    wanted = {("charge", name) for name, (_, kind) in world.sent.items() if kind == "paid"}
    for name, kind in world.asked.items():
        certain = name.startswith("keyed-") or name in world.enqueued
        if kind == "remind" and (certain or ("call", name) in world.calls):
            wanted.add(("call", name))
    if wanted != set(world.calls):
        yield f"the calls should be {sorted(wanted)}, and are {sorted(world.calls)} (I2, I4)"
    mailed = {name for name, (_, kind) in world.sent.items() if kind in MAILED}
    if mailed != set(world.mails):
        yield f"messages should be for {sorted(mailed)}, and are for {sorted(world.mails)} (I11)"
    for what, keys in [*world.calls.items(), *world.mails.items()]:
        if len(keys) > 1:
            yield f"{what} was done with {len(keys)} keys, and should always have the same (I11)"
