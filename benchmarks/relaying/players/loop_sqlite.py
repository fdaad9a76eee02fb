"""The loop by hand on SQLite."""

from __future__ import annotations

import json
import sqlite3
import uuid
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import httpx

from benchmarks.ingesting.tables import file_of
from benchmarks.relaying.players.by_hand import LEFT, headers
from benchmarks.relaying.players.loop import NEXT
from benchmarks.relaying.players.tables import SETTINGS, SQLITE_ORDERS, SQLITE_OUTBOX
from benchmarks.relaying.turns import content, target

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LEFT", "prepare", "relay", "staging"]

ORDER = "INSERT INTO orders (id) VALUES (?)"
STAGE = "INSERT INTO outbox (message, url, body) VALUES (?, ?, ?)"
SENT = "UPDATE outbox SET sent_at = julianday('now') WHERE id = ?"


def opened(url: str) -> sqlite3.Connection:
    connection = sqlite3.connect(file_of(url), isolation_level=None)
    for setting in SETTINGS:
        connection.execute(setting)
    return connection


def prepare(url: str) -> None:
    with closing(opened(url)) as connection:
        connection.executescript(f"{SQLITE_ORDERS}; {SQLITE_OUTBOX}")


def relay(url: str, port: int) -> None:  # noqa: ARG001
    with closing(opened(url)) as connection, httpx.Client() as client:
        while row := connection.execute(NEXT).fetchone():
            number, message, to, body = row
            client.post(to, content=body, headers=headers(message)).raise_for_status()
            connection.execute(SENT, (number,))


class Stager:
    """On a connection of the caller's."""

    def __init__(self, connection: sqlite3.Connection, port: int) -> None:
        self._connection, self._target = connection, target(port)

    def fill(self, numbers: range) -> None:
        """In one transaction."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(STAGE, [self._message(number) for number in numbers])
        self._connection.execute("COMMIT")

    def within(self, number: int) -> None:
        """Two rows and the commit."""
        connection = self._connection
        connection.execute("BEGIN")
        connection.execute(ORDER, (number,))
        connection.execute(STAGE, self._message(number))
        connection.execute("COMMIT")

    def _message(self, number: int) -> tuple[str, str, bytes]:
        return str(uuid.uuid4()), self._target, json.dumps(content(number)).encode()


@contextmanager
def staging(url: str, port: int) -> Iterator[Stager]:
    with closing(opened(url)) as connection:
        yield Stager(connection, port)
