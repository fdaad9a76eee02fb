"""What `loop` and `pooled` share: the table, and the bare INSERT that stages a message."""

from __future__ import annotations

import json
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg

from benchmarks.relaying.players.tables import ORDERS, OUTBOX
from benchmarks.relaying.turns import content, target

if TYPE_CHECKING:
    from collections.abc import Iterator

LEFT = "SELECT count(*) > 0 FROM outbox WHERE sent_at IS NULL"
ORDER = "INSERT INTO orders (id) VALUES (%s)"
STAGE = "INSERT INTO outbox (message, url, body) VALUES (%s, %s, %s)"
SENT = "UPDATE outbox SET sent_at = now() WHERE id = %s"


def prepare(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(ORDERS)
        connection.execute(OUTBOX)


class Stager:
    """On a connection of the caller's."""

    def __init__(self, connection: psycopg.Connection[Any], port: int) -> None:
        self._connection, self._target = connection, target(port)

    def fill(self, numbers: range) -> None:
        """In one transaction."""
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.executemany(STAGE, [self._message(number) for number in numbers])

    def within(self, number: int) -> None:
        """Two rows and the commit."""
        connection = self._connection
        connection.execute("BEGIN")
        connection.execute(ORDER, (number,))
        connection.execute(STAGE, self._message(number))
        connection.execute("COMMIT")

    def _message(self, number: int) -> tuple[uuid.UUID, str, bytes]:
        return uuid.uuid4(), self._target, json.dumps(content(number)).encode()


@contextmanager
def staging(url: str, port: int) -> Iterator[Stager]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield Stager(connection, port)


def headers(message: object) -> dict[str, str]:
    """What the receiver knows a message by."""
    return {"Content-Type": "application/json", "Idempotency-Key": str(message)}
