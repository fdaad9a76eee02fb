"""How often an operation reached a connection, and so whether there can be anything to undo."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from duly.core.errors import InProgress

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from duly.core.keys import Key
    from duly.core.session import Operation, Session

T = TypeVar("T")
logger = logging.getLogger("duly")


@contextmanager
def log_release_failure(key: Key) -> Iterator[None]:
    """Giving back a claim must not hide the error that led to it: a second error is logged."""
    try:
        yield
    except Exception:
        logger.warning(
            "the claim on %s/%s could not be given back: it is taken until its time is over",
            key.scope,
            key.text,
            exc_info=True,
        )


class CountedOperation(Generic[T]):
    """An operation that counts its runs; a server that is away begins none."""

    def __init__(self, operation: Operation[T]) -> None:
        self._operation = operation
        self.runs = 0

    def __call__(self, session: Session) -> Coroutine[Any, Any, T]:
        """Run the operation once more."""
        self.runs += 1
        return self._operation(session)

    def may_have_claimed(self, problem: BaseException) -> bool:
        """Whether a claim may stand that nobody heard of.

        `InProgress` says that the run it ended claimed nothing; an earlier run may have, unheard.
        """
        return self.runs > (1 if isinstance(problem, InProgress) else 0)
