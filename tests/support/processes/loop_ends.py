"""Ends one event loop after another, without `aclose()`: ``module URL LOOP MOMENT``.

Each loop ends a step later than the one before, and is told on stdout once it has ended.
"""

import asyncio
import logging
import sys
import uuid

import uvloop
from psycopg_pool.pool_async import ShrinkPool

import duly
from duly import aio

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
ROUNDS = 40
# More callers than the pool has connections when it opens, so that it begins to grow.
CALLERS = 5


async def grow(store: duly.types.Store) -> None:
    """Begin some calls, and wait for the first of them: the pool opens connections meanwhile."""
    calls = [
        asyncio.create_task(aio.dedup(store, "loop ends", str(uuid.uuid4())))
        for _ in range(CALLERS)
    ]
    await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)


async def schedule(store: duly.types.Store) -> None:
    """Have the pool do something later, sooner than anything else that it will do."""
    pool = await store.async_runner.pool()  # type: ignore[attr-defined]  # of PostgreSQL
    await pool.schedule_task(ShrinkPool(pool), 1.0)


MOMENTS = {"growing": grow, "scheduling": schedule}


async def end_after(store: duly.types.Store, moment: str, steps: int) -> None:
    """Return, and so end the loop, so many steps after the moment."""
    await MOMENTS[moment](store)
    for _ in range(steps):
        await asyncio.sleep(0)


def main(url: str, loop: str, moment: str) -> None:
    logging.disable()
    store = duly.store(url)
    for steps in range(ROUNDS):
        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(end_after(store, moment, steps))
        print(steps, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
