"""SQLite's write lock is taken when a transaction begins: one that has read can always write."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

import duly

READ, ADD = "SELECT n FROM counter", "UPDATE counter SET n = n + 1"


@pytest.fixture
def other(sqlite_url: str) -> sqlite3.Connection:
    """Somebody else on the same file, who waits for nobody."""
    path = sqlite_url.removeprefix("sqlite:///")
    return sqlite3.connect(path, timeout=0, isolation_level=None)


@pytest.fixture
def app(sqlite_url: str, other: sqlite3.Connection) -> duly.Duly:
    """An application beside a counter of the user's."""
    with duly.store(sqlite_url):
        other.execute("CREATE TABLE counter (n INTEGER)")
        other.execute("INSERT INTO counter VALUES (0)")
    return duly.Duly(sqlite_url)


def count(other: sqlite3.Connection) -> None:
    """Somebody else adds one, or is told to wait."""
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute(ADD)


def test_nobody_writes_between_what_a_transaction_reads_and_what_it_writes(
    app: duly.Duly, other: sqlite3.Connection
) -> None:
    with closing(other), closing(app):
        with app.transaction() as tx:
            assert tx.execute(READ) == [{"n": 0}]
            count(other)
            tx.execute(ADD)
        assert other.execute(READ).fetchall() == [(1,)]


async def test_nor_where_it_is_awaited(app: duly.Duly, other: sqlite3.Connection) -> None:
    with closing(other):
        async with app.aio.transaction() as tx:
            assert await tx.execute(READ) == [{"n": 0}]
            count(other)
            await tx.execute(ADD)
        assert other.execute(READ).fetchall() == [(1,)]
        await app.aclose()
