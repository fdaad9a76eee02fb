"""A deadline that costs nothing where there is nothing to wait for.

Most bodies are there when their request is handed over. Setting a timer for each, and taking it
back, would be a tenth of the work before the commit; so the timer is set only once the reading has
to wait.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

T = TypeVar("T")


class LazyTimeout(Generic[T]):
    """Awaits some work, and raises `TimeoutError` if it takes longer than so many seconds."""

    def __init__(self, work: Coroutine[Any, Any, T], seconds: float) -> None:
        self._work = work
        self._seconds = seconds

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._work.__await__()
        try:
            waits_for = next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        return (
            yield from await_with_timeout(
                StartedCoroutine(steps, waits_for), self._seconds
            ).__await__()
        )


async def await_with_timeout(begun: StartedCoroutine[T], seconds: float) -> T:
    """The rest of the work, under a timer."""
    async with asyncio.timeout(seconds):
        return await begun


class StartedCoroutine(Generic[T]):
    """Work that waits for the first time, and goes on from there."""

    def __init__(self, steps: Generator[Any, Any, T], waits_for: object) -> None:
        self._steps = steps
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, T]:
        waits_for = self._waits_for
        while True:
            try:
                try:
                    answer = yield waits_for
                except (
                    BaseException
                ) as problem:  # the timer's, or a cancellation: the work's to hear
                    waits_for = self._steps.throw(problem)
                else:
                    waits_for = self._steps.send(answer)
            except StopIteration as done:
                result: T = done.value
                return result
