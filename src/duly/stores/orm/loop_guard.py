"""Keep a pool of async connections to one event loop.

asyncpg's connections work in the loop that made them and in no other: a statement from another
loop fails half-way, and the connection goes back to its pool inside a transaction. SQLAlchemy's
pool itself is not safe between two running loops. So the first loop that uses a pool keeps it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from duly.core.errors import UsageError
from duly.stores.join.drivers import type_names

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

# Drivers whose connections are of no use once their loop has ended.
LOOP_BOUND = frozenset({"asyncpg"})


class LoopGuard:
    """Remembers which event loop uses an engine's pool, and refuses any other."""

    def __init__(self) -> None:
        self._pool: Any = None
        self._loop: AbstractEventLoop | None = None

    def enter(self, engine: Any) -> None:
        """Reserve the engine's pool for the running loop; refuse where another loop has it.

        A pool that the user disposed of is replaced by SQLAlchemy, and belongs to no loop yet.
        """
        loop, pool = asyncio.get_running_loop(), engine.pool
        if loop is self._loop and pool is self._pool:
            return
        if pool is self._pool and self._loop is not None:
            self._refuse_other_loop(self._loop, engine.dialect.driver)
        # NullPool keeps no connection, so that nothing of one loop can reach another.
        keeps = "sqlalchemy.NullPool" not in type_names(pool)
        self._pool, self._loop = (pool, loop) if keeps else (None, None)

    def holds(self, engine: Any) -> bool:
        """Whether the running loop has the engine's pool."""
        return engine.pool is self._pool and self._loop is asyncio.get_running_loop()

    def leave(self) -> None:
        """Release the pool: it was disposed of."""
        self._pool = self._loop = None

    def _refuse_other_loop(self, owner: AbstractEventLoop, driver: str) -> None:
        if owner.is_running():
            raise UsageError(
                "the pool of begin= belongs to another event loop of this process, which runs: a "
                "connection used from two loops loses what was committed on it. Work on that loop "
                "(await app.aio.work() or app.aio.relay()), start duly worker and duly relay as "
                "processes of their own, or give the engine poolclass=NullPool"
            )
        if driver in LOOP_BOUND:
            raise UsageError(
                f"the pool of begin= belongs to an event loop that has stopped, and {driver}'s "
                "connections end with their loop: call await engine.dispose() before a loop ends, "
                "or give the engine poolclass=NullPool"
            )
