"""Whatever bytes a genuine delivery holds, it is taken: its sender would only send them again."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.server.hostile.crowds import sent
from tests.server.hostile.servers import serving
from tests.server.hostile.wire import PATIENCE, delivery
from tests.webhooks.hostile import BODIES, VALUES, raw

if TYPE_CHECKING:
    from pathlib import Path

    from tests.server.hostile.servers import Server
    from tests.server.hostile.wire import Answer

pytestmark = pytest.mark.slow

ODD = [
    *BODIES,
    *[raw('{"type":"odd","data":' + value + "}") for value in VALUES],
    *[raw('{"type":' + value + "}") for value in VALUES],
    b"[" * 100_000 + b"]" * 100_000,
    b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    b'{"type":"odd","n":' + b"9" * 200_000 + b"}",
    b'{"type":"odd","n":1e' + b"9" * 1000 + b"}",
    b'{"type":"\\u0000\\ud800","timestamp":"\\u0000"}',
    b'{"type":"odd\xff\xfe"}',
    bytes(range(256)) * 100,
]
PATHS = ["/hooks", "/inline"]


async def delivered(server: Server, path: str) -> list[Answer | None]:
    """The answers to all of them, sent at the same time, and again where a sender must come again.

    On a busy machine a commit may take longer than the server waits for it.
    """
    parts = [delivery(f"odd_{number}", body, path=path) for number, body in enumerate(ODD)]
    found = await asyncio.gather(*[sent(server.address, part) for part in parts])
    async with asyncio.timeout(PATIENCE):
        while again := [n for n, answer in enumerate(found) if answer and answer.status == 503]:
            for number in again:
                found[number] = await sent(server.address, parts[number])
    return found


def deliver_all(server: Server, path: str) -> None:
    """Every body is taken once and known the second time."""
    first = asyncio.run(delivered(server, path))
    assert {answer and answer.status for answer in first} == {200}
    known = asyncio.run(delivered(server, path))
    assert {answer and (answer.status, answer.said) for answer in known} == {(200, "duplicate")}
    server.check_alive()


@pytest.mark.parametrize("path", PATHS)
def test_a_genuine_delivery_of_odd_bytes_is_taken_and_kept_as_it_came(
    tmp_path: Path, path: str
) -> None:
    database = tmp_path / "duly.db"
    with serving(f"sqlite:///{database}", tmp_path) as server:
        deliver_all(server, path)
    connection = sqlite3.connect(database)
    rows = connection.execute("SELECT event_id, body FROM duly_events").fetchall()
    connection.close()
    kept: dict[str, bytes] = dict(rows)
    assert len(rows) == len(ODD)
    assert [kept[f"odd_{number}"] for number in range(len(ODD))] == ODD


@pytest.mark.parametrize("path", PATHS)
def test_a_genuine_delivery_of_odd_bytes_is_taken_by_postgres_as_it_came(
    own_postgres_url: str, tmp_path: Path, path: str
) -> None:
    with serving(own_postgres_url, tmp_path) as server:
        deliver_all(server, path)
    with psycopg.connect(own_postgres_url) as connection:
        rows = connection.execute("SELECT event_id, body FROM duly_events").fetchall()
    kept: dict[str, bytes] = dict(rows)
    assert len(rows) == len(ODD)
    assert [kept[f"odd_{number}"] for number in range(len(ODD))] == ODD
