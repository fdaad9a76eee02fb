"""Forgetting: claims whose time is over, in chunks small enough to hold no lock for long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.core.defaults import WAIT
from duly.ledger.statements import CLAIMS_PRUNE

if TYPE_CHECKING:
    from duly.core.session import Runner, Session


async def prune(session: Session, *, limit: int) -> int:
    """Delete up to ``limit`` expired claims and return how many went."""
    return len(await session.rows(CLAIMS_PRUNE, limit=limit))


async def prune_joined(session: Session, limit: int) -> int:
    """The same in a transaction that is not ours."""
    await session.begin(None)
    return await prune(session, limit=limit)


async def prune_committed(runner: Runner, limit: int) -> int:
    """The same in a transaction of duly's own."""
    return await runner.run_autocommit(lambda session: prune(session, limit=limit), wait=WAIT)
