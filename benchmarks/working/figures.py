"""What the server says of a run: the log it wrote, the commits it made, the rows it left dead."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator

# Backends report what they did when they end, and they end a moment after their client.
PATIENCE = 10.0
TABLES = """
CREATE TABLE accounts (id integer PRIMARY KEY, visits integer NOT NULL);
CREATE TABLE orders (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id integer NOT NULL);
"""
ACCOUNTS = "INSERT INTO accounts SELECT n, 0 FROM generate_series(1, %s) AS n"
WRONG = "SELECT count(*) FROM accounts WHERE visits <> 1"
DEAD = "SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables"
ALONE = """
SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'
"""
COMMITS = "SELECT xact_commit FROM pg_stat_database WHERE datname = %s"
WRITTEN = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"


@dataclass(frozen=True, slots=True)
class Marks:
    """What has been counted since the server started."""

    written: int
    commits: int


class Server:
    """The one server of the run, asked from its maintenance database."""

    def __init__(self, admin_url: str) -> None:
        self._connection = psycopg.connect(admin_url, autocommit=True)

    def close(self) -> None:
        """At the end of the run."""
        self._connection.close()

    def checkpoint(self) -> None:
        """Put the next one off: after it every page is logged whole when it first changes."""
        self._connection.execute("CHECKPOINT")

    def marks(self, database: str) -> Marks:
        """Counted so far, once nobody is connected to the database any more."""
        deadline = time.monotonic() + PATIENCE
        while not self._ask(ALONE, database):
            if time.monotonic() > deadline:
                raise AssertionError(f"somebody is still connected to {database}")
            time.sleep(0.02)
        return Marks(int(self._ask(WRITTEN)), int(self._ask(COMMITS, database)))

    def _ask(self, question: str, *values: str) -> Any:
        return first(self._connection, question, values)


def first(connection: psycopg.Connection[Any], question: str, values: tuple[str, ...] = ()) -> Any:
    """The only column of the only row."""
    row = connection.execute(question.encode(), values).fetchone()
    if row is None:
        raise AssertionError("a question without condition has one row")
    return row[0]


def make_tables(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TABLES)


def make_accounts(url: str, number: int) -> None:
    """A row for each job to update; then the planner knows every table as it is."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(ACCOUNTS, (number,))
        connection.execute("ANALYZE")


def dead_rows(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        return int(first(connection, DEAD))


def wrong_accounts(url: str) -> int:
    """How many accounts were not updated once."""
    with psycopg.connect(url, autocommit=True) as connection:
        return int(first(connection, WRONG))


@contextmanager
def old_snapshot(url: str) -> Iterator[None]:
    """A transaction that is open all the while, so that no row that dies can be cleaned away."""
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM accounts")
        yield
