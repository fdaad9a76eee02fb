"""A timeout whose timer is set only once the work has to wait.

Most bodies are there when their request is handed over. Setting a timer for each, and taking it
back, would be a tenth of the work before the commit.
"""

from __future__ import annotations

import asyncio
import types
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

T = TypeVar("T")


@types.coroutine
def with_lazy_timeout(work: Coroutine[Any, Any, T], seconds: float) -> Generator[Any, Any, T]:
    """Await some work; raise `TimeoutError` if it takes longer than so many seconds."""
    steps = work.__await__()
    try:
        waits_for = next(steps)
    except StopIteration as done:
        result: T = done.value
        return result
    rest = await_with_timeout(StartedCoroutine(steps, waits_for), seconds)
    return (yield from rest.__await__())


async def await_with_timeout(begun: StartedCoroutine[T], seconds: float) -> T:
    """Await the rest of the work under a timer."""
    async with asyncio.timeout(seconds):
        return await begun


class StartedCoroutine(Generic[T]):
    """Work that waits for the first time, to be continued from there."""

    def __init__(self, steps: Generator[Any, Any, T], waits_for: object) -> None:
        self._steps = steps
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, T]:
        waits_for = self._waits_for
        while True:
            try:
                try:
                    answer = yield waits_for
                except BaseException as problem:  # the timer's, or a cancellation
                    waits_for = self._steps.throw(problem)
                else:
                    waits_for = self._steps.send(answer)
            except StopIteration as done:
                result: T = done.value
                return result
