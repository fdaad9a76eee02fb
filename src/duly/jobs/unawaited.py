"""Knowing whether what a handler asked for was awaited: what was not was never done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from duly.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

T = TypeVar("T")


class TrackedAwaitable(Generic[T]):
    """Work that begins when it is awaited, and knows whether it was."""

    def __init__(self, work: Coroutine[Any, Any, T], verb: str) -> None:
        self._work = work
        self.verb = verb
        self.begun = False

    def __await__(self) -> Generator[Any, Any, T]:
        self.begun = True
        return self._work.__await__()

    def give_up(self) -> None:
        """Never to be awaited any more."""
        self._work.close()


class AwaitTracker:
    """All that one handler asked for."""

    def __init__(self) -> None:
        self._promises: list[TrackedAwaitable[Any]] = []

    def track(self, verb: str, work: Coroutine[Any, Any, T]) -> TrackedAwaitable[T]:
        """Something to await, by the name of the verb that it was asked with."""
        self._promises.append(promise := TrackedAwaitable(work, verb))
        return promise

    def refuse_unkept(self) -> None:
        """Refuse what was never awaited."""
        unkept = [promise for promise in self._promises if not promise.begun]
        for promise in unkept:
            promise.give_up()
        if unkept:
            verb = unkept[0].verb
            others = "" if len(unkept) == 1 else f", and {len(unkept) - 1} more like it,"
            raise UsageError(
                f"{verb}(…){others} was asked for without `await`, and never done: write "
                f"`await {verb}(…)`"
            )
