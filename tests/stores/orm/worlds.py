"""Every ORM and driver that can open a handler's transaction, behind one small interface.

A test writes its handler once, as a coroutine over a `Hand`. Where the ORM blocks, nothing in it
ever waits, and one step runs it to its end.
"""

from __future__ import annotations

import uuid
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
from django.db import connections
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

import duly
from duly.core.onestep import finish
from tests.stores.join.django_handles import configured, database, spelled
from tests.stores.join.sqlalchemy_handles import engine_url

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from duly.stores.join.drivers import Mode

    Body = Callable[[duly.Event, "Hand"], Awaitable[None]]

SECRET = "whsec_" + "A" * 32
WRITE = "INSERT INTO notes (scope, note) VALUES (:scope, :note)"


@dataclass(frozen=True, slots=True)
class World:
    """One ORM on one driver. Those that are ``wide`` are left to `make test-wide`."""

    name: str
    store: str
    colour: Mode
    driver: str = ""
    wide: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def is_django(self) -> bool:
        return self.name.startswith("django")

    @asynccontextmanager
    async def begin(self, url: str, **options: Any) -> AsyncIterator[Any]:
        """What ``begin=`` takes; engines live as long as the block."""
        if self.is_django:
            with django_alias(url, **options) as alias:
                yield duly.django.database(alias)
        elif self.colour == "sync":
            engine = create_engine(engine_url(url, self.driver), **pool(options))
            yield sessionmaker(engine)
            engine.dispose()
        else:
            awaited = create_async_engine(engine_url(url, self.driver), **pool(options))
            yield async_sessionmaker(awaited)
            await awaited.dispose()

    def handle(self, app: duly.Duly, source: str, body: Body, **options: Any) -> None:
        """Have the source's events handled by the coroutine, in the colour of this ORM."""
        if self.colour == "sync":

            def blocking(event: duly.Event, tx: Any) -> None:
                finish(body(event, Hand(self, source, tx)))  # type: ignore[arg-type]

            app.on(source, name="handler", **options)(blocking)
            return

        async def awaited(event: duly.Event, tx: Any) -> None:
            await body(event, Hand(self, source, tx))

        app.on(source, name="handler", **options)(awaited)


@dataclass(frozen=True, slots=True)
class Hand:
    """A handler's ``tx``, the same to use in every world."""

    world: World
    source: str
    tx: Any

    async def write(self, note: str) -> None:
        """Write a row through the ORM's own session."""
        values = {"scope": self.source, "note": note}
        if self.world.is_django:
            with self.tx.session.cursor() as cursor:
                cursor.execute(*spelled(WRITE, values))
        else:
            await self.waited(self.tx.session.execute(text(WRITE), values))

    async def execute(self, statement: str, **values: Any) -> Any:
        """Run a statement through ``tx.execute``."""
        return await self.waited(self.tx.execute(statement, **values))

    async def waited(self, result: Any) -> Any:
        """The same call blocks in one colour and is awaited in the other."""
        return await result if self.world.colour == "async" else result


def pool(options: dict[str, Any]) -> dict[str, Any]:
    """A connection for each transaction, unless the test asks for a pool."""
    return options or {"poolclass": NullPool}


@contextmanager
def django_alias(url: str, **options: Any) -> Iterator[str]:
    """A database that Django knows while the block lasts."""
    configured()
    alias = f"begin_{uuid.uuid4().hex}"
    settings = {"default": {}, alias: {**database(url), **options}}
    connections.settings.update(connections.configure_settings(settings))
    try:
        yield alias
    finally:
        connections[alias].close()
        del connections[alias]
        del connections.settings[alias]


def signed(key: str, content: bytes = b'{"type":"order.paid"}') -> duly.types.Signed:
    """A genuine delivery."""
    return duly.sign("standard-webhooks", content, SECRET, id=key)


def made(begin: Any, source: str, url: str | None = None, **options: Any) -> duly.Duly:
    """An application with one inline source."""
    app = duly.Duly(url, begin=begin, **options)
    app.source(source, provider="standard-webhooks", secret=SECRET, inline=True)
    return app


async def post(app: duly.Duly, source: str, sent: duly.types.Signed, server: str) -> httpx.Response:
    """Deliver to the application under one kind of server."""
    path = f"http://shop.test/{source}"
    request = httpx.Request("POST", path, headers=dict(sent.headers), content=sent.body)
    if server == "wsgi":
        return httpx.Client(transport=httpx.WSGITransport(app=app.wsgi)).send(request)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app)) as client:
        return await client.send(request)


WORLDS = [
    World("sqlalchemy-sqlite", "sqlite", "sync", "pysqlite"),
    World("sqlalchemy-psycopg", "postgres", "sync", "psycopg", wide=True),
    World("sqlalchemy-aiosqlite", "sqlite", "async", "aiosqlite"),
    World("sqlalchemy-psycopg-awaited", "postgres", "async", "psycopg", wide=True),
    World("sqlalchemy-asyncpg", "postgres", "async", "asyncpg"),
    World("django-sqlite", "sqlite", "sync", wide=True),
    World("django-postgres", "postgres", "sync"),
]
ON_POSTGRES = [world for world in WORLDS if world.store == "postgres"]
