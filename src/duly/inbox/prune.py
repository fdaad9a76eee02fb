"""Removing what the inbox has kept long enough, in chunks that hold no lock for long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly._kernel.clock import MICROSECOND
from duly._kernel.options import DELIVERIES_KEPT, WAIT
from duly.inbox.statements import DELIVERIES_PRUNE, EVENTS_PRUNE, EVENTS_STRIP

if TYPE_CHECKING:
    from duly._kernel.session import Runner, Session


async def prune_inbox(runner: Runner, limit: int) -> dict[str, int]:
    """Remove up to ``limit`` bodies, events and noted arrivals; returns how many of each went."""

    async def bodies(session: Session) -> int:
        return len(await session.rows(EVENTS_STRIP, limit=limit))

    async def events(session: Session) -> int:
        return len(await session.rows(EVENTS_PRUNE, limit=limit))

    async def deliveries(session: Session) -> int:
        age = DELIVERIES_KEPT // MICROSECOND
        return len(await session.rows(DELIVERIES_PRUNE, age=age, limit=limit))

    return {
        "bodies": await runner.run_single(bodies, wait=WAIT),
        "events": await runner.run_single(events, wait=WAIT),
        "deliveries": await runner.run_single(deliveries, wait=WAIT),
    }
