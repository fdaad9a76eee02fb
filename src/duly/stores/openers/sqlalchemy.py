"""SQLAlchemy's session factories: each handler's transaction is a session of theirs."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from duly._kernel.errors import Misuse
from duly._kernel.session import Opened, ended
from duly.stores.join import join
from duly.stores.openers.addresses import postgres_address, sqlite_address
from duly.stores.openers.endings import Ending, refuse_unsound
from duly.stores.owners.sqlalchemy import checked_dialect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
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


class Blocking(Maker):
    """A ``sessionmaker``."""

    colour: Colour = "sync"

    @asynccontextmanager
    async def opened(self, *, wait: timedelta) -> AsyncIterator[Opened]:  # noqa: ARG002
        """A session in a transaction; the bound is set where the claim is made."""
        with Ending() as ending, self._maker() as session, session.begin() as transaction:
            joined = join(session, self._names, self._clock, colour="sync", verb="begin")
            yield Opened(joined, session.connection(), session)
            ending.handled = True
            if not transaction.is_active:
                raise ended()
            session.flush()
            await refuse_unsound(session.connection().connection.driver_connection)


class Awaited(Maker):
    """An ``async_sessionmaker``."""

    colour: Colour = "async"

    @asynccontextmanager
    async def opened(self, *, wait: timedelta) -> AsyncIterator[Opened]:  # noqa: ARG002
        """A session in a transaction; the bound is set where the claim is made."""
        with Ending() as ending:
            async with self._maker() as session, session.begin() as transaction:
                joined = join(session, self._names, self._clock, colour="async", verb="begin")
                yield Opened(joined, await session.connection(), session)
                ending.handled = True
                if not transaction.is_active:
                    raise ended()
                await session.flush()
                pooled = await (await session.connection()).get_raw_connection()
                await refuse_unsound(pooled.driver_connection)


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
