"""Whether an operation ever reached a connection, and so whether there can be anything to undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from duly._kernel.session import Operation, Session

T = TypeVar("T")


class Attempt(Generic[T]):
    """An operation that remembers that it was begun; a server that is away begins none."""

    def __init__(self, operation: Operation[T]) -> None:
        self._operation = operation
        self.begun = False

    def __call__(self, session: Session) -> Coroutine[Any, Any, T]:
        self.begun = True
        return self._operation(session)
