"""Knowing whether what a handler asked for was awaited: what was not was never done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from duly._kernel.errors import Misuse

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

T = TypeVar("T")


class Promised(Generic[T]):
    """Work that begins when it is awaited, and knows whether it was."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self.begun = False

    def __await__(self) -> Generator[Any, Any, T]:
        self.begun = True
        return self._work.__await__()

    def give_up(self) -> None:
        """Never to be awaited any more."""
        self._work.close()


class Promises:
    """All that one handler asked for."""

    def __init__(self, remedy: str) -> None:
        self._remedy = remedy
        self._promises: list[Promised[Any]] = []

    def made(self, work: Coroutine[Any, Any, T]) -> Promised[T]:
        """Something to await."""
        self._promises.append(promise := Promised(work))
        return promise

    def refuse_unkept(self) -> None:
        """Refuse what was never awaited."""
        unkept = [promise for promise in self._promises if not promise.begun]
        for promise in unkept:
            promise.give_up()
        if unkept:
            times = "once" if len(unkept) == 1 else f"{len(unkept)} times"
            raise Misuse(
                f"{times} something was asked for without `await`, and that was never done: "
                f"{self._remedy}"
            )
