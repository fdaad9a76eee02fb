"""SQLAlchemy: connections and sessions, in both colours, and the blocking one inside the awaited.

Each is opened on an engine of its own, which is disposed of at the end.
"""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal, TypeVar

from sqlalchemy import Connection, Engine, NullPool, create_engine, event, text
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import scoped_session, sessionmaker

import duly
from tests.stores.join.handles import AwaitedHandle, BlockingHandle, Handle, Values

Kind = Literal["connection", "session", "scoped"]
T = TypeVar("T")


class AlchemyHandle(BlockingHandle):
    """A ``Connection``, a ``Session`` or a ``scoped_session``: they answer the same calls."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def begin(self) -> None:
        self.connection.begin()

    async def commit(self) -> None:
        self.connection.commit()

    async def rollback(self) -> None:
        self.connection.rollback()

    async def execute(self, sql: str, values: Values | None = None) -> None:
        self.connection.execute(text(sql), dict(values or {}))

    async def fetch(self, sql: str, values: Values | None = None) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.connection.execute(text(sql), dict(values or {}))]

    def in_transaction(self) -> bool:
        return bool(unscoped(self.connection).in_transaction())

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        with self.connection.begin_nested():
            yield


class AlchemyAsyncHandle(AwaitedHandle):
    """An ``AsyncConnection``, an ``AsyncSession`` or an ``async_scoped_session``."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def begin(self) -> None:
        await self.connection.begin()

    async def commit(self) -> None:
        await self.connection.commit()

    async def rollback(self) -> None:
        await self.connection.rollback()

    async def execute(self, sql: str, values: Values | None = None) -> None:
        await self.connection.execute(text(sql), dict(values or {}))

    async def fetch(self, sql: str, values: Values | None = None) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self.connection.execute(text(sql), dict(values or {}))]

    def in_transaction(self) -> bool:
        return bool(unscoped(self.connection).in_transaction())

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        async with self.connection.begin_nested():
            yield


class RunSyncHandle(BlockingHandle):
    """The blocking verbs inside ``run_sync``, as Alembic's asynchronous template calls them."""

    def __init__(self, outer: AsyncConnection | AsyncSession) -> None:
        self.connection = (
            outer.sync_session if isinstance(outer, AsyncSession) else outer.sync_connection
        )
        self._outer = AlchemyAsyncHandle(outer)
        # What duly does blocking, SQLAlchemy's greenlet awaits.
        self._run: Callable[..., Awaitable[Any]] = outer.run_sync

    async def begin(self) -> None:
        await self._outer.begin()

    async def commit(self) -> None:
        await self._outer.commit()

    async def rollback(self) -> None:
        await self._outer.rollback()

    async def execute(self, sql: str, values: Values | None = None) -> None:
        await self._outer.execute(sql, values)

    async def fetch(self, sql: str, values: Values | None = None) -> list[tuple[Any, ...]]:
        return await self._outer.fetch(sql, values)

    def in_transaction(self) -> bool:
        return self._outer.in_transaction()

    def savepoint(self) -> AbstractAsyncContextManager[None]:
        return self._outer.savepoint()

    async def call(self, verb: Callable[..., T], *positional: Any, **options: Any) -> T:
        result: T = await self._run(lambda inner: verb(inner, *positional, **options))
        return result

    @asynccontextmanager
    async def once(
        self, scope: str, key: str | bytes, *positional: Any, **options: Any
    ) -> AsyncIterator[Any]:
        once = await self.call(duly.once, scope, key, *positional, **options)
        turn = await self._run(lambda _: once.__enter__())
        try:
            yield turn
        except BaseException as error:
            await self._run(leave(once, error))
            raise
        await self._run(leave(once, None))


def unscoped(held: Any) -> Any:
    """The session behind a scoped one, which does not pass every call on."""
    return held() if isinstance(held, scoped_session | async_scoped_session) else held


def leave(once: Any, error: BaseException | None) -> Callable[[Any], None]:
    """Leave a ``with`` block from inside ``run_sync``."""
    return lambda _: once.__exit__(None if error is None else type(error), error, None)


def engine_url(url: str, driver: str) -> str:
    """The address with SQLAlchemy's name for the driver."""
    return url.replace("://", f"+{driver}://", 1)


@asynccontextmanager
async def alchemy_handle(
    url: str, *, driver: str, kind: Kind, recipe: bool = False, **options: Any
) -> AsyncIterator[AlchemyHandle]:
    """Open through a blocking engine; ``options`` are those of ``create_engine``."""
    engine = create_engine(engine_url(url, driver), poolclass=NullPool, **options)
    if recipe:
        begin_by_event(engine)
    makers: dict[Kind, Callable[[], Any]] = {
        "connection": engine.connect,
        "session": sessionmaker(engine),
        "scoped": lambda: scoped_session(sessionmaker(engine)),
    }
    opened = makers[kind]()
    try:
        yield AlchemyHandle(opened)
    finally:
        opened.close()
        engine.dispose()


@asynccontextmanager
async def alchemy_async_handle(
    url: str, *, driver: str, kind: Kind, run_sync: bool = False
) -> AsyncIterator[Handle]:
    """Open through an awaited engine."""
    engine = create_async_engine(engine_url(url, driver), poolclass=NullPool)
    maker = async_sessionmaker(engine)
    makers: dict[Kind, Callable[[], Any]] = {
        "connection": engine.connect,
        "session": maker,
        "scoped": lambda: async_scoped_session(maker, scopefunc=lambda: None),
    }
    opened = makers[kind]()
    if kind == "connection":
        await opened.start()
    try:
        yield RunSyncHandle(opened) if run_sync else AlchemyAsyncHandle(opened)
    finally:
        await opened.close()
        await engine.dispose()


def begin_by_event(engine: Engine) -> None:
    """SQLAlchemy's recipe for SQLite: the driver begins nothing, an event says BEGIN."""

    @event.listens_for(engine, "connect")
    def leave_it_to_us(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")
