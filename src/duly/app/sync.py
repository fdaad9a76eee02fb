"""How a sync verb runs an async body: around a block, or in an event loop of its own."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from duly.core.errors import SyncAsyncMismatch
from duly.core.onestep import finish

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from contextlib import AbstractAsyncContextManager

    from duly.app.process import Process

T = TypeVar("T")


def loop_is_running() -> bool:
    """True where this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@contextmanager
def finish_block(opening: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Enter and leave an async context manager over a sync session, each in one step."""
    entered = finish(opening.__aenter__())
    try:
        yield entered
    except BaseException as problem:
        if not finish(opening.__aexit__(type(problem), problem, problem.__traceback__)):
            raise
    else:
        finish(opening.__aexit__(None, None, None))


def run_in_own_loop(
    work: Callable[[], Coroutine[Any, Any, T]],
    process: Process,
    instead: str,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> T:
    """Run to its end in an event loop that is made for this, and leave nothing of it open."""
    if loop_is_running():
        raise SyncAsyncMismatch(f"an event loop is running here: use {instead}")

    async def run() -> T:
        try:
            return await work()
        finally:
            await process.release_loop()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(run())
