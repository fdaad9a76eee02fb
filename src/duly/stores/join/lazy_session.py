"""A session that gets its driver connection from SQLAlchemy or Django when it begins.

Both hand out the driver's connection late, and SQLAlchemy's async side only awaited. Statements
then run on that connection directly, so that columns and parameters are those of the driver, while
the framework begins and nests.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, cast

from duly.core.session import Session
from duly.stores.join.drivers import check_names

if TYPE_CHECKING:
    from datetime import timedelta

    from duly.core.defaults import Names
    from duly.core.session import Dialect, WorkKind


class JoinedOwner(Protocol):
    """An owner that knows whether its transaction is still the one that was joined."""

    def refuse_ended(self) -> None:
        """Raise where the code inside a savepoint ended the transaction around it.

        The driver's connection may be back in its pool by then, and serve other code.
        """


# Finds the session over the driver's connection, and the transaction's owner, or refuses.
FindSession = Callable[[], Coroutine[Any, Any, tuple[Session, JoinedOwner]]]


def lazy_session(find: FindSession, names: Names, dialect: Dialect) -> Session:
    """A session that finds its driver's connection when it begins."""
    check_names(names, dialect)
    return cast("Session", LazySession(find, names, dialect))


class LazySession:
    """Knows its names and dialect at once; from ``begin`` on it is the session that it found."""

    def __init__(self, find: FindSession, names: Names, dialect: Dialect) -> None:
        self._find = find
        self._found: tuple[Session, JoinedOwner] | None = None
        self.names = names
        self.dialect = dialect
        self.new_work: set[WorkKind] = set()

    async def begin(self, wait: timedelta | None) -> None:
        """Find the driver's connection, and make sure that a transaction is open on it."""
        self._found = await self._find()
        await self._found[0].begin(wait)

    def __getattr__(self, name: str) -> Any:
        if self._found is None:
            raise RuntimeError("an operation used its session before begin()")
        session, owner = self._found
        owner.refuse_ended()
        return getattr(session, name)
