"""The user's side of a test: a connection, and a table of effects that forbids no double."""

import sqlite3
from typing import Any

import psycopg

CREATE = "CREATE TABLE effects (name text, worker text)"


class Side:
    """A connection of the user's own, to SQLite or PostgreSQL."""

    def __init__(self, url: str) -> None:
        self.is_sqlite = url.startswith("sqlite:")
        self.connection: Any = (  # Any: one of two drivers
            sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, timeout=20)
            if self.is_sqlite
            else psycopg.connect(url, autocommit=True, prepare_threshold=None)  # for poolers
        )

    def begin(self) -> None:
        """Begin a transaction in which duly takes part."""
        self.connection.execute("BEGIN IMMEDIATE" if self.is_sqlite else "BEGIN")

    def commit(self) -> None:
        self.connection.execute("COMMIT")

    def roll_back(self) -> None:
        self.connection.execute("ROLLBACK")

    def work(self, name: str, worker: str) -> None:
        """The effect that must happen once."""
        place = "?" if self.is_sqlite else "%s"
        self.connection.execute(f"INSERT INTO effects VALUES ({place}, {place})", (name, worker))

    def effects(self) -> list[str]:
        """The name of every effect there is."""
        cursor = self.connection.execute("SELECT name FROM effects ORDER BY name")
        return [name for (name,) in cursor.fetchall()]

    def close(self) -> None:
        self.connection.close()
