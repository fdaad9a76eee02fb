"""Tracking calls of async handlers: one that was never awaited was never done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from duly.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

T = TypeVar("T")


class TrackedAwaitable(Generic[T]):
    """Work that begins when it is awaited, and records that it was."""

    def __init__(self, work: Coroutine[Any, Any, T], verb: str) -> None:
        self._work = work
        self.verb = verb
        self.begun = False

    def __await__(self) -> Generator[Any, Any, T]:
        self.begun = True
        return self._work.__await__()

    def give_up(self) -> None:
        """Close work that will never be awaited."""
        self._work.close()


class AwaitTracker:
    """The tracked calls of one handler."""

    def __init__(self) -> None:
        self._calls: list[TrackedAwaitable[Any]] = []

    def track(self, verb: str, work: Coroutine[Any, Any, T]) -> TrackedAwaitable[T]:
        """Track a call, under the name of its verb."""
        self._calls.append(call := TrackedAwaitable(work, verb))
        return call

    def refuse_unkept(self) -> None:
        """Raise `UsageError` if a call was never awaited."""
        unkept = [call for call in self._calls if not call.begun]
        for call in unkept:
            call.give_up()
        if unkept:
            verb = unkept[0].verb
            others = "" if len(unkept) == 1 else f", and {len(unkept) - 1} more like it,"
            raise UsageError(
                f"{verb}(…){others} was called without `await`, and never done: write "
                f"`await {verb}(…)`"
            )
