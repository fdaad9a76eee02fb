"""Replay: dead jobs are made ready again, chunk by chunk, each of them once.

The times at which they run are written with them, so a replay that is spread over hours needs no
process that stays.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from duly._kernel.errors import Misuse
from duly._kernel.options import WAIT
from duly.jobs.dead import Selection
from duly.jobs.statements import JOBS_DEAD_IDS, JOBS_REPLAY

if TYPE_CHECKING:
    from duly._kernel.session import Runner, Session

# Small enough that a chunk holds its locks for milliseconds.
CHUNK = 500
# Jobs per second. Slower than that nobody waits for, and faster than that no database is.
SLOWEST, FASTEST = 0.001, 1_000_000
SECOND = 1_000_000
FIRST_ID = "00000000-0000-0000-0000-000000000000"
Told = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Replayed:
    """The jobs that are ready again, in the order in which they run.

    With ``dry_run`` those that would be: nothing was changed.
    """

    ids: tuple[str, ...]
    dry_run: bool = False


class Chunk(NamedTuple):
    """Some of the letters of a selection: what was done, and where to go on."""

    ids: tuple[str, ...]
    rest: Plan | None


class Plan(NamedTuple):
    """What is left to do: the letters that are meant, from one of them on."""

    which: Selection
    gap: int = 0
    dry_run: bool = False
    done: int = 0
    after_at: int = 0
    after_id: str = FIRST_ID


def plan_of(which: Selection, rate: object, *, dry_run: object, everything: object) -> Plan:
    """What a caller asked for; all letters are replayed only if that is said."""
    if not isinstance(dry_run, bool) or not isinstance(everything, bool):
        raise Misuse("dry_run and all must be True or False")
    if which == Selection() and not everything:
        raise Misuse(
            "which dead letters? Give the id of one job, or source=, type=, name=, since= or "
            "until=; or all=True for every one of them"
        )
    if which != Selection() and everything:
        raise Misuse("all=True means every dead letter: leave out the id and the filters, or it")
    return Plan(which, gap_of(rate), dry_run)


def gap_of(rate: object) -> int:
    """The microseconds between two jobs, from how many may run in a second."""
    if rate is None:
        return 0
    number = isinstance(rate, int | float) and not isinstance(rate, bool)
    if not number or not SLOWEST <= rate <= FASTEST:  # type: ignore[operator]
        raise Misuse(f"rate must be a number of jobs per second, from {SLOWEST} to {FASTEST:,}")
    return math.ceil(SECOND / rate)  # type: ignore[operator]


async def replay(runner: Runner, plan: Plan, told: Told = lambda _: None) -> Replayed:
    """Replay all that is meant; ``told`` hears how many it were so far, before each next chunk."""
    chunk = await one_chunk(runner, plan)
    ids = list(chunk.ids)
    while chunk.rest is not None:
        told(len(ids))
        chunk = await one_chunk(runner, chunk.rest)
        ids += chunk.ids
    return Replayed(tuple(ids), plan.dry_run)


async def one_chunk(runner: Runner, plan: Plan) -> Chunk:
    """One short transaction.

    It is not run again after a lost reply: what the first run did would be missing in the answer,
    and asking once more replays what is left.
    """
    return await runner.run(
        lambda session: replay_chunk(session, plan), wait=WAIT, after_loss=False
    )


async def replay_chunk(session: Session, plan: Plan) -> Chunk:
    """Replay the next letters of a plan."""
    rows = await session.rows(
        JOBS_DEAD_IDS,
        **plan.which.values(),
        after_at=plan.after_at,
        after_id=plan.after_id,
        limit=CHUNK,
    )
    found = [row["id"] for row in rows]
    done = found if plan.dry_run or not found else await made_ready(session, found, plan)
    if len(found) < CHUNK:
        return Chunk(tuple(done), None)
    last = rows[-1]
    # What dies again while this goes on is not meant: it would never end.
    now = last["now"] + 1
    until = now if plan.which.until is None else min(plan.which.until, now)
    rest = plan._replace(
        which=plan.which._replace(until=until),
        done=plan.done + len(done),
        after_at=last["dead_at"],
        after_id=last["id"],
    )
    return Chunk(tuple(done), rest)


async def made_ready(session: Session, found: list[str], plan: Plan) -> list[str]:
    """Make jobs ready that are still dead; their ids in the order in which they will run."""
    rows = await session.rows(JOBS_REPLAY, ids=json.dumps(found), start=plan.done, gap=plan.gap)
    ready = {row["id"] for row in rows}
    return [job for job in found if job in ready]
