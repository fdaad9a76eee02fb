"""SQLAlchemy's session factories: each handler's transaction is a session of theirs."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import SQLAlchemyError

from duly._kernel.errors import Misuse
from duly._kernel.session import Opened, ended
from duly.jobs.tx import unending
from duly.stores.join import join
from duly.stores.openers.addresses import postgres_address, sqlite_address
from duly.stores.openers.endings import Ending, refuse_unsound
from duly.stores.owners.sqlalchemy import checked_dialect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from datetime import timedelta

    from duly._kernel.clock import Clock
    from duly._kernel.options import Names
    from duly.stores.drivers import Colour


class Maker:
    """What both colours of SQLAlchemy's factories share."""

    colour: Colour

    def __init__(self, maker: Any, names: Names, clock: Clock | None) -> None:
        self._maker = maker
        self._names = names
        self._clock = clock
        self._engine = engine_of(maker)
        if self._engine is not None:
            checked_dialect(self._engine.dialect)
            refuse_colour(self._engine, self.colour)

    def url(self) -> str:
        """The address of the engine that the factory's sessions use."""
        if self._engine is None:
            raise Misuse("begin= has no engine: give the sessionmaker bind=, or the app a url")
        url, dialect = self._engine.url, self._engine.dialect
        if dialect.name == "sqlite":
            return sqlite_address(url.database)
        return postgres_address(dialect.create_connect_args(url)[1])

    def surrounding(self) -> None:
        """None: a sessionmaker does not know the sessions that the caller has open."""

    def refuse_moved(self) -> None:
        """Nothing to do: an engine leads where it led when it was made."""

    def attend(self, app: Any) -> None:
        """Nothing to do: SQLAlchemy has no test runner."""


class Blocking(Maker):
    """A ``sessionmaker``."""

    colour: Colour = "sync"

    @asynccontextmanager
    async def opened(self, *, wait: timedelta) -> AsyncIterator[Opened]:  # noqa: ARG002
        """A session in a transaction; the bound is set where the claim is made."""
        with Ending() as ending, self._maker() as session:
            transaction = session.begin()
            try:
                joined = join(session, self._names, self._clock, colour="sync", verb="begin")
                with staying(session):
                    yield Opened(joined, session.connection(), session)
                ending.handled = True
                refuse_ended(transaction)
                await refuse_unsound(session.connection().connection.driver_connection)
                transaction.commit()
            except BaseException:
                with suppress(SQLAlchemyError):  # the connection may be gone; closing drops it then
                    session.rollback()
                raise


class Awaited(Maker):
    """An ``async_sessionmaker``."""

    colour: Colour = "async"

    @asynccontextmanager
    async def opened(self, *, wait: timedelta) -> AsyncIterator[Opened]:  # noqa: ARG002
        """A session in a transaction; the bound is set where the claim is made."""
        with Ending() as ending:
            async with self._maker() as session:
                transaction = await session.begin()
                try:
                    joined = join(session, self._names, self._clock, colour="async", verb="begin")
                    connection = await session.connection()
                    # An AsyncConnection takes no attributes, and asks the one below for everything.
                    with unending(connection.sync_connection), staying(session):
                        yield Opened(joined, connection, session)
                    ending.handled = True
                    refuse_ended(transaction)
                    pooled = await (await session.connection()).get_raw_connection()
                    await refuse_unsound(pooled.driver_connection)
                    await transaction.commit()
                except BaseException:
                    with suppress(SQLAlchemyError):
                        await session.rollback()
                    raise


@contextmanager
def staying(session: Any) -> Iterator[None]:
    """Refuse the other two ways in which a session lets go of its connection."""

    def refuse(*_: object, **__: object) -> None:
        raise Misuse("a handler's session is ended by duly: return to commit, raise to roll back")

    session.reset = session.invalidate = refuse
    try:
        yield
    finally:
        del session.reset, session.invalidate


def refuse_ended(transaction: Any) -> None:
    """Refuse to commit another transaction than the one that the claim was made in."""
    if not transaction.is_active:
        raise ended()


def engine_of(maker: Any) -> Any:
    """The engine of a factory's sessions, of either colour; None where they have several."""
    bind = maker.kw.get("bind")
    return None if bind is None else bind.engine


def refuse_colour(engine: Any, colour: Colour) -> None:
    """Refuse a factory of one colour over an engine of the other."""
    if engine.dialect.is_async and colour == "sync":
        raise Misuse("this sessionmaker has an async engine: pass an async_sessionmaker as begin=")
    if not engine.dialect.is_async and colour == "async":
        raise Misuse("this async_sessionmaker has an engine that blocks: use create_async_engine")
