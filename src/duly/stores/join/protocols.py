"""What ``tx=`` and ``begin=`` accept, described by its methods, for type checkers.

These are protocols and not unions of the drivers' own classes: a type checker can only read a
class whose package is installed, and no application has all of them. At run time `stores.join`
and `stores.orm` recognise the objects, by the names of their classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from duly.jobs.tx import AsyncTx, Tx
    from duly.stores.orm.begin import DjangoAlias


class SyncConnection(Protocol):
    """A sync connection of sqlite3, psycopg or Django, or one or a session of SQLAlchemy."""

    def commit(self) -> None:
        """Commit the open transaction."""

    def rollback(self) -> None:
        """Roll the open transaction back."""


class AsyncConnection(Protocol):
    """An async connection of aiosqlite or psycopg, or a connection or session of SQLAlchemy."""

    def commit(self) -> Awaitable[None]:
        """Commit the open transaction."""

    def rollback(self) -> Awaitable[None]:
        """Roll the open transaction back."""


class AsyncpgConnection(Protocol):
    """A connection of asyncpg, which ends its transactions through an object of their own."""

    def is_in_transaction(self) -> bool:
        """Whether a transaction is open."""


class ConnectionStandIn(Protocol):
    """An object that forwards to a connection: of asyncpg's pool, or Django's ``connection``."""

    def __getattr__(self, name: str, /) -> Any:
        """The attribute of the connection."""


class SessionFactory(Protocol):
    """SQLAlchemy's ``sessionmaker``."""

    # Its settings. A scoped_session, which is refused, has none.
    kw: dict[str, Any]

    def __call__(self) -> SyncConnection:
        """A new session."""

    def begin(self) -> AbstractContextManager[SyncConnection]:
        """A session in a transaction."""


class AsyncSessionFactory(Protocol):
    """SQLAlchemy's ``async_sessionmaker``."""

    kw: dict[str, Any]

    def __call__(self) -> AsyncConnection:
        """A new session."""

    def begin(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A session in a transaction."""


Joinable: TypeAlias = "SyncConnection | ConnectionStandIn"
AsyncJoinable: TypeAlias = "AsyncConnection | AsyncpgConnection | ConnectionStandIn"
# `tx=` of an app's verbs, which may also be the `tx` of a handler.
JoinableTx: TypeAlias = "Tx[Any] | Joinable"
AsyncJoinableTx: TypeAlias = "AsyncTx[Any] | AsyncJoinable"
BeginsTransactions: TypeAlias = "SessionFactory | AsyncSessionFactory | DjangoAlias"
