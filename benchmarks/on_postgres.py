"""The PostgreSQL duels: duly's tables and the peer's, side by side in one database."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from tests.support.servers import database

import duly
from benchmarks.measures import CALLERS
from benchmarks.ours import AwaitedOnPostgres, OursOnPostgres
from benchmarks.pairs import awaited_duels, blocking_duels
from benchmarks.peers.postgres import (
    SETTINGS,
    AwaitedPeer,
    AwaitedPooledPeer,
    PooledPeer,
    PostgresPeer,
    pool_settings,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.duels import Duel
    from duly.stores.store import Store

# Of both pools: duly's own default.
CONNECTIONS = 10


@contextmanager
def duels(server: str, *, lean: bool) -> Iterator[list[Duel]]:
    """Both colours on the same tables, in a database that goes with the run."""
    with database(server) as url, ExitStack() as stack:
        duly.store(url, prefix="peer_").migrate()  # the peer's tables, made alike
        store = duly.store(url, connections=CONNECTIONS)
        store.migrate()
        stack.callback(store.close)
        yield [
            *blocking_pairs(stack, store, url, lean=lean),
            *awaited_pairs(stack, store, url, lean=lean),
        ]


def blocking_pairs(stack: ExitStack, store: Store, url: str, *, lean: bool) -> list[Duel]:
    """The blocking colour."""
    given = stack.enter_context(psycopg.connect(url, **SETTINGS))
    alone = stack.enter_context(psycopg.connect(url, **SETTINGS))
    pool: ConnectionPool[Any] = ConnectionPool(
        url, kwargs=pool_settings(lean=lean), max_size=CONNECTIONS, open=False
    )
    stack.enter_context(pool)
    threads = stack.enter_context(ThreadPoolExecutor(CALLERS))
    ours, theirs = OursOnPostgres(store, given), PostgresPeer(alone, lean=lean)
    return blocking_duels("postgres", ours, theirs, PooledPeer(pool), threads)


def awaited_pairs(stack: ExitStack, store: Store, url: str, *, lean: bool) -> list[Duel]:
    """The awaited colour, in one event loop from the first round to the last."""
    runner = stack.enter_context(asyncio.Runner())
    stack.callback(lambda: runner.run(store.aclose()))
    ours = AwaitedOnPostgres(store, connected(stack, runner, url))
    theirs = AwaitedPeer(connected(stack, runner, url), lean=lean)
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
        url, kwargs=pool_settings(lean=lean), max_size=CONNECTIONS, open=False
    )
    runner.run(pool.open())
    stack.callback(lambda: runner.run(pool.close()))
    return awaited_duels("postgres", ours, theirs, AwaitedPooledPeer(pool), runner)


def connected(stack: ExitStack, runner: asyncio.Runner, url: str) -> psycopg.AsyncConnection[Any]:
    """A connection of the runner's event loop."""

    async def connect() -> psycopg.AsyncConnection[Any]:
        return await psycopg.AsyncConnection.connect(url, **SETTINGS)

    connection = runner.run(connect())
    stack.callback(lambda: runner.run(connection.close()))
    return connection
