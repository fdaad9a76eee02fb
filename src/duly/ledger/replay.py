"""Replay: dead jobs or messages are made ready again, chunk by chunk, each of them once.

The times at which they run are written with them, so a replay that is spread over hours needs no
process that stays.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from duly.core.defaults import WAIT
from duly.core.errors import UsageError
from duly.core.exports import export_type

if TYPE_CHECKING:
    from duly.core.session import Runner, Session, Value

# Small enough that a chunk holds its locks for milliseconds.
CHUNK = 500
# Per second. No database is faster; a slower replay would take years.
SLOWEST, FASTEST = 0.001, 1_000_000
SECOND = 1_000_000
FIRST_ID = "00000000-0000-0000-0000-000000000000"
ReportProgress = Callable[[int], None]


@export_type
@dataclass(frozen=True, slots=True)
class Replayed:
    """What was made ready again, in the order in which it runs.

    With ``dry_run``, what would be: nothing was changed.
    """

    ids: tuple[str, ...]
    dry_run: bool = False


class Chunk(NamedTuple):
    """One chunk of a replay: what was replayed, and the plan for the rest."""

    ids: tuple[str, ...]
    rest: ReplayPlan | None


class DeadSelection(Protocol):
    """Which dead jobs or messages to replay."""

    @property
    def until(self) -> int | None:
        """Only those that died before that; in microseconds."""

    def with_until(self, until: int) -> DeadSelection:
        """The selection with another ``until``."""

    def values(self) -> dict[str, Value]:
        """The parameters of a statement."""


class ReplayPlan(NamedTuple):
    """What is left to replay: a selection, from one of its rows on."""

    # The statements that find dead rows, and that make them ready.
    finds: str
    makes_ready: str
    which: DeadSelection
    gap: int = 0
    dry_run: bool = False
    done: int = 0
    after_at: int = 0
    after_id: str = FIRST_ID


def gap_of(rate: object) -> int:
    """The microseconds between two replayed rows, from the rate per second."""
    if rate is None:
        return 0
    number = isinstance(rate, int | float) and not isinstance(rate, bool)
    if not number or not SLOWEST <= rate <= FASTEST:  # type: ignore[operator]
        raise UsageError(f"rate must be a number per second, from {SLOWEST} to {FASTEST:,}")
    return math.ceil(SECOND / rate)  # type: ignore[operator]


async def replay(
    runner: Runner, plan: ReplayPlan, report_progress: ReportProgress = lambda _: None
) -> Replayed:
    """Replay every chosen row; ``report_progress`` gets the count before each next chunk."""
    chunk = await run_chunk(runner, plan)
    ids = list(chunk.ids)
    while chunk.rest is not None:
        report_progress(len(ids))
        chunk = await run_chunk(runner, chunk.rest)
        ids += chunk.ids
    return Replayed(tuple(ids), plan.dry_run)


async def run_chunk(runner: Runner, plan: ReplayPlan) -> Chunk:
    """Replay one chunk in one short transaction.

    It is not run again after a lost reply: the answer would lack what the first run did. The
    caller asks again, and what is left is replayed.
    """
    return await runner.run(
        lambda session: replay_chunk(session, plan), wait=WAIT, after_loss=False
    )


async def replay_chunk(session: Session, plan: ReplayPlan) -> Chunk:
    """Replay the next rows of a plan."""
    rows = await session.rows(
        plan.finds,
        **plan.which.values(),
        after_at=plan.after_at,
        after_id=plan.after_id,
        limit=CHUNK,
    )
    found = [row["id"] for row in rows]
    done = found if plan.dry_run or not found else await make_ready(session, found, plan)
    if len(found) < CHUNK:
        return Chunk(tuple(done), None)
    last = rows[-1]
    # Leave out what dies again meanwhile: the replay would never end.
    now = last["now"] + 1
    until = now if plan.which.until is None else min(plan.which.until, now)
    rest = plan._replace(
        which=plan.which.with_until(until),
        done=plan.done + len(done),
        after_at=last["dead_at"],
        after_id=last["id"],
    )
    return Chunk(tuple(done), rest)


async def make_ready(session: Session, found: list[str], plan: ReplayPlan) -> list[str]:
    """Make ready what is still dead; return the ids in the order in which they will run."""
    rows = await session.rows(
        plan.makes_ready, ids=json.dumps(found), start=plan.done, gap=plan.gap
    )
    ready = {row["id"] for row in rows}
    return [one for one in found if one in ready]
