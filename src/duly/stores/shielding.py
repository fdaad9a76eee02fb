"""Carrying something to its end, however often the caller is cancelled meanwhile."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

T = TypeVar("T")
logger = logging.getLogger("duly")
# Seconds until a task that goes on is cancelled once more.
AGAIN = 1.0


async def shield_to_end(work: Coroutine[Any, Any, T] | asyncio.Future[T]) -> T:
    """Await the work to its end; a caller that was cancelled raises so afterwards itself.

    Cancel scopes cancel again at every await, and what must be undone must not be left half-way.
    """
    task = asyncio.ensure_future(work)
    while True:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise


async def shield_then_cancel(work: Coroutine[Any, Any, T]) -> T:
    """Await the work to its end, and raise only then that the caller was cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as problem:
            cancelled = problem
        except Exception:  # it is raised below
            break
    if cancelled is not None and not task.cancelled():
        task.exception()  # it was seen
        raise cancelled
    return task.result()


async def cancel_until_done(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and again until every one has ended.

    A cancellation can be lost on its way: before Python 3.12 `asyncio.wait_for` returns instead of
    raising it where what it waits for is done in the same moment, and pools of connections wait so.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        done, left = await asyncio.wait(left, timeout=AGAIN)
        for task in left:  # whoever waits for an end at night wants to know for what
            logger.warning("%r goes on although it was cancelled: it is cancelled again", task)
        for task in done:
            if not task.cancelled():
                task.exception()  # it was seen
