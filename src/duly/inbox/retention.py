"""Removing what the inbox has kept long enough, in chunks that hold no lock for long."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from duly.core.clock import MICROSECOND
from duly.core.defaults import COUNTERS_KEPT, WAIT
from duly.inbox.statements import (
    COUNTERS_PRUNE,
    DELIVERIES_PRUNE,
    EVENTS_PRUNE,
    EVENTS_STRIP,
)

if TYPE_CHECKING:
    from duly.core.session import Runner, Session


async def prune_bodies(runner: Runner, limit: int) -> int:
    """Remove up to ``limit`` bodies whose time is over, and return how many went."""

    async def strip(session: Session) -> int:
        return len(await session.rows(EVENTS_STRIP, limit=limit))

    return await runner.run_autocommit(strip, wait=WAIT)


async def prune_counters(runner: Runner, limit: int) -> int:
    """Delete up to ``limit`` counters of minutes long ago, and return how many went."""
    age = COUNTERS_KEPT // MICROSECOND

    async def delete(session: Session) -> int:
        return len(await session.rows(COUNTERS_PRUNE, age=age, limit=limit))

    return await runner.run_autocommit(delete, wait=WAIT)


async def prune_events(runner: Runner, limit: int) -> int:
    """Delete up to ``limit`` events whose time is over, with what was noted about them."""

    async def delete(session: Session) -> int:
        rows = await session.rows(EVENTS_PRUNE, limit=limit)
        if rows:
            gone = json.dumps([row["id"] for row in rows])
            await session.rows(DELIVERIES_PRUNE, events=gone)
        return len(rows)

    return await runner.run(delete, wait=WAIT)
