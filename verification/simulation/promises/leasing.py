"""States, leases and counters: I7, I9 and I10, from the journal of every move."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from duly.core.retry import RESCUE_LIMIT
from duly.core.states import CLAIM_MOVES, JOB_MOVES, MESSAGE_MOVES
from duly.outbox.lease import MOST_RESCUES
from verification.simulation.errors import broken

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.core import states
    from verification.simulation.facts import Facts, Move
    from verification.simulation.schedules import Schedule

Steps = set[tuple[str | None, str | None]]


def allowed(
    moves: Iterable[states.Move[states.JobState] | states.Move[states.MessageState]],
) -> Steps:
    """The moves of a table, as its rows show them: what is done or sent has left it."""
    return {(one.before, None if one.after in ("done", "sent") else one.after) for one in moves}


TABLES: dict[str, Steps] = {
    "job": allowed(JOB_MOVES),
    "message": allowed(MESSAGE_MOVES),
    # A claim whose time is over is removed.
    "claim": {(one.before, one.after) for one in CLAIM_MOVES} | {("done", None), ("held", None)},
}
RESCUES = {"job": RESCUE_LIMIT, "message": MOST_RESCUES}


def moved(schedule: Schedule, facts: Facts) -> None:
    """I7 and I9: one state at a time, along the table; and no counter beyond its limit."""
    left: set[str] = set()
    for move in facts.moves:
        if move.what not in TABLES:
            continue
        if (move.before, move.after) not in TABLES[move.what]:
            broken("I7", f"{move.what} {move.id} went from {move.before} to {move.after}")
        if move.what in RESCUES:
            within_limits(move)
            if move.before == "leased" and move.after is None:
                left.add(move.id)
    over = Counter(move.id for move in facts.moves if move.what == "history")
    if any(times > 1 for times in over.values()) or left != set(over):
        broken("I7", "a job or message was done twice, or left without a trace")


def within_limits(move: Move) -> None:
    """I9: attempts and rescues never exceed their limits."""
    if move.attempts > move.most or move.rescues > RESCUES[move.what]:
        told = f"{move.attempts} attempts and {move.rescues} rescues"
        broken("I9", f"{move.what} {move.id} has {told}")


def leased(schedule: Schedule, facts: Facts) -> None:
    """I10: epochs only grow, and no two leases share a token."""
    epochs: dict[tuple[str, str], int] = {}
    tokens: set[bytes | None] = {None}
    for move in facts.moves:
        if move.what not in TABLES:
            continue
        name, taken = (move.what, move.id), move.after == "leased"
        before = epochs.get(name, 0)
        if move.epoch < before + taken:
            broken("I10", f"the epoch of {move.what} {move.id} went from {before} to {move.epoch}")
        if taken and move.token in tokens:
            broken("I10", f"a token of {move.what} {move.id} was used before")
        if taken:
            tokens.add(move.token)
        if move.what == "claim" and move.epoch > before > 0:
            schedule.world.seen["claims taken over"] += 1
        # A claim that was removed and is made anew is another one.
        epochs[name] = 0 if move.what == "claim" and move.after is None else move.epoch


def rescued(schedule: Schedule, facts: Facts) -> None:
    """I9 and machines: no lease is lost without a fault; and the counts, for the report."""
    world = schedule.world
    lost: Counter[str] = Counter()
    last: dict[str, int] = {}
    for move in facts.moves:
        if move.what in RESCUES:
            if move.before == "leased" and move.rescues > last.get(move.id, 0):
                world.seen[f"{move.what}s rescued"] += 1
                lost[f"{move.what} {move.id}"] += 1
            world.seen[f"{move.what}s dead"] += move.after == "dead"
            last[move.id] = move.rescues
    faults = world.nemesis.costly + world.faults["handler kills its process"]
    for whose, times in lost.items():
        if times > faults:
            broken("I9", f"{whose} lost its lease {times} times, to {faults} faults")
