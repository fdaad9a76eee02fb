"""Every way to run a statement of the user's: in a joined transaction, and in one of duly's own."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import duly
from duly.core.defaults import WAIT, Names
from duly.core.onestep import finish
from duly.core.session import OpenedTransaction, Rows
from duly.jobs.registry import JobRegistry, Registries
from duly.jobs.tx import AsyncTx, Tx
from duly.outbox.registry import OutboxRegistry
from duly.stores.join.recognise import join
from tests.stores.join.handles import BlockingHandle
from tests.stores.join.ways import ALL, Colour, Way

Ask = Callable[..., Awaitable[Rows]]


@dataclass(frozen=True, slots=True)
class Asker:
    """Opens a transaction and gives ``tx.execute`` in it; nothing of it stays."""

    name: str
    store: Literal["sqlite", "postgres"]
    # The package whose errors reach the user.
    driver: str
    open: Callable[[str], AbstractAsyncContextManager[Ask]]
    wide: bool = False

    def __str__(self) -> str:
        return self.name


class Over(Exception):
    """Ends a transaction of duly's own without keeping anything."""


@asynccontextmanager
async def joined(url: str, *, way: Way) -> AsyncIterator[Ask]:
    """In a transaction that the user began."""
    async with way.open(url) as user:
        await user.begin()

        async def ask(text: str, **values: Any) -> Rows:
            if isinstance(user, BlockingHandle):
                return await user.call(lambda connection: blocking(connection, text, values))
            return await awaited(user.connection, text, values)

        yield ask
        await user.rollback()


def blocking(connection: object, text: str, values: dict[str, Any]) -> Rows:
    """One statement through the blocking transaction of a handler."""
    session = join(connection, Names(), None, mode="sync", verb="begin")
    finish(session.begin(None))
    return Tx(
        OpenedTransaction(session, connection), Registries(JobRegistry(), OutboxRegistry())
    ).execute(text, **values)


async def awaited(connection: object, text: str, values: dict[str, Any]) -> Rows:
    """The same, awaited."""
    session = join(connection, Names(), None, mode="async", verb="begin")
    await session.begin(None)
    return await AsyncTx(
        OpenedTransaction(session, connection), Registries(JobRegistry(), OutboxRegistry())
    ).execute(text, **values)


@asynccontextmanager
async def own(url: str, *, colour: Colour) -> AsyncIterator[Ask]:
    """In a transaction that duly began."""
    store = duly.store(url)
    runner = store.sync_runner if colour == "sync" else store.async_runner
    try:
        with suppress(Over):
            async with runner.open_transaction(wait=WAIT) as opened:
                if colour == "async":
                    yield AsyncTx(opened, Registries(JobRegistry(), OutboxRegistry())).execute
                else:
                    tx = Tx(opened, Registries(JobRegistry(), OutboxRegistry()))

                    async def ask(text: str, **values: Any) -> Rows:
                        return tx.execute(text, **values)

                    yield ask
                raise Over
    finally:
        await store.aclose()
        store.close()


def driver_of(way: Way) -> str:
    """The package whose connection is at the bottom of a way."""
    if way.store == "sqlite":
        return "sqlite3"
    return "asyncpg" if "asyncpg" in way.name else "psycopg"


COLOURS: tuple[Colour, ...] = ("sync", "async")
OWN = [
    Asker(f"own-sqlite-{colour}", "sqlite", "sqlite3", partial(own, colour=colour))
    for colour in COLOURS
] + [
    Asker(f"own-postgres-{colour}", "postgres", "psycopg", partial(own, colour=colour))
    for colour in COLOURS
]
ASKERS = [
    *(
        Asker(way.name, way.store, driver_of(way), partial(joined, way=way), way.wide)
        for way in ALL
    ),
    *OWN,
]
