"""What a process that lives still holds when it is through: transactions, connections of pools.

A dead one holds nothing, because the kernel closes what it had.
"""

from __future__ import annotations

import asyncio
import gc
import time
from typing import TYPE_CHECKING, Any

from psycopg_pool import AsyncConnectionPool, ConnectionPool

from verification.crash_matrix.traps import state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from verification.crash_matrix.bench import Bench

# Seconds: what is written in the background, or waits for a server that says nothing, has an end.
PATIENCE, PAUSE = 10.0, 0.02


async def leaks_of(bench: Bench, connections: Callable[[], Iterable[Any]]) -> list[str]:
    """What is never let go of."""
    until = time.monotonic() + PATIENCE
    while (found := leaks(connections())) and time.monotonic() < until:
        if bench.is_sync:
            time.sleep(PAUSE)  # noqa: ASYNC251  # nobody else is in this loop
        else:
            await asyncio.sleep(PAUSE)
    return found


def leaks(connections: Iterable[Any]) -> list[str]:
    """What is held now."""
    held = [f"{state_of(one)[1]} has a transaction open" for one in connections if is_inside(one)]
    for pool in (one for one in gc.get_objects() if is_pool(one) and not one.closed):
        told = pool.get_stats()
        if told.get("pool_available", 0) < told.get("pool_size", 0):
            held.append(f"of a pool of {told['pool_size']}, {told['pool_available']} are there")
    return held


def is_inside(connection: Any) -> bool:
    """Whether a transaction is open, on a connection that is open itself."""
    closed = connection.is_closed() if hasattr(connection, "is_closed") else False
    return not (closed or getattr(connection, "closed", False)) and state_of(connection)[0]


def is_pool(value: object) -> bool:
    """Whether it is one of psycopg's."""
    return type(value) in (ConnectionPool, AsyncConnectionPool)
