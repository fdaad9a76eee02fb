"""duly as a user would write it: a message in the caller's transaction, and a relay."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from contextlib import closing, contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

import psycopg

import duly
from benchmarks.ingesting.tables import file_of
from benchmarks.relaying.contenders import AT_ONCE
from benchmarks.relaying.players.tables import ORDERS, SETTINGS, SQLITE_ORDERS
from benchmarks.relaying.turns import address, content, target

if TYPE_CHECKING:
    from collections.abc import Iterator

LEFT = "SELECT count(*) > 0 FROM duly_outbox"
CONCURRENCY = 50


def application(url: str, port: int) -> duly.Duly:
    return duly.Duly(url, egress=duly.Egress(allow=[address(port)]))


def prepare(url: str) -> None:
    duly.store(url).migrate()
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(file_of(url))) as connection:
            connection.execute(SQLITE_ORDERS)
        return
    with psycopg.connect(url) as connection:
        connection.execute(ORDERS)


def relay(url: str, port: int) -> None:
    application(url, port).relay(until="stopped", per_destination=AT_ONCE, concurrency=CONCURRENCY)


class Stager:
    """On a connection of the caller's."""

    def __init__(self, app: duly.Duly, connection: Any, port: int, mark: str) -> None:
        self._app, self._connection, self._target = app, connection, target(port)
        self._order = f"INSERT INTO orders (id) VALUES ({mark})"

    def fill(self, numbers: range) -> None:
        """In a transaction of duly's."""
        with self._app.transaction() as tx:
            for number in numbers:
                tx.send(self._target, json=content(number))

    def within(self, number: int) -> None:
        """The caller begins and commits; duly writes one row."""
        connection = self._connection
        connection.execute("BEGIN")
        connection.execute(self._order, (number,))
        self._app.send(self._target, json=content(number), tx=connection)
        connection.execute("COMMIT")


@contextmanager
def staging(url: str, port: int) -> Iterator[Stager]:
    app = application(url, port)
    with closing(opened(url)) as connection:
        yield Stager(app, connection, port, "?" if url.startswith("sqlite") else "%s")
    app.close()


def opened(url: str) -> Any:
    """The caller's own connection, whose transactions it begins by hand."""
    if not url.startswith("sqlite"):
        return psycopg.connect(url, autocommit=True)
    connection = sqlite3.connect(file_of(url), isolation_level=None)
    for setting in SETTINGS:
        connection.execute(setting)
    return connection


def tell(url: str, port: int) -> None:
    """Stage a message for each line, with the relay in the same process; print when that began."""
    asyncio.run(telling(application(url, port), target(port)))


async def telling(app: duly.Duly, url: str) -> None:
    loop = asyncio.get_running_loop()
    relaying = loop.create_task(
        app.aio.relay(until="stopped", per_destination=AT_ONCE, concurrency=CONCURRENCY)
    )
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        called = monotonic()
        async with app.aio.transaction() as tx:
            await tx.send(url, json=content(int(line)))
        print(f"{called:.9f}", flush=True)
    relaying.cancel()
