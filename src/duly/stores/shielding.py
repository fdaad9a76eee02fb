"""Await work to its end, however often the caller is cancelled meanwhile."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

T = TypeVar("T")
logger = logging.getLogger("duly")
# Seconds until a task that goes on is cancelled once more.
CANCEL_AGAIN = 1.0


async def shield_to_end(work: Coroutine[Any, Any, T] | asyncio.Future[T]) -> T:
    """Await the work to its end; return its result even to a caller that was cancelled.

    The caller must raise its own cancellation afterwards. Cancel scopes cancel again at every
    await, and work such as a rollback must not be left half-way.
    """
    task = asyncio.ensure_future(work)
    while True:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise


async def shield_then_cancel(work: Coroutine[Any, Any, T]) -> T:
    """Await the work to its end; then raise the cancellation of the caller, if there was one."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as problem:
            cancelled = problem
        except Exception:  # raised by result() below
            break
    if cancelled is not None and not task.cancelled():
        task.exception()  # or asyncio logs it as never retrieved
        raise cancelled
    return task.result()


async def cancel_until_done(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and again until every one has ended.

    A cancellation can be lost: before Python 3.12 `asyncio.wait_for` returns instead of raising it
    where its task is done in the same moment, and connection pools use it.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        done, left = await asyncio.wait(left, timeout=CANCEL_AGAIN)
        for task in left:  # an operator who waits for a stop wants to know for what
            logger.warning("%r goes on after its cancellation: cancelling it again", task)
        for task in done:
            if not task.cancelled():
                task.exception()  # or asyncio logs it as never retrieved
