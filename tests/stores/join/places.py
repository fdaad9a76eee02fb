"""A database with duly's tables and one of the user's, and what an outsider can see of it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

import duly
from tests.stores.join.sqlite_handles import path_of

NOTES = "CREATE TABLE IF NOT EXISTS notes (scope text NOT NULL, note text NOT NULL UNIQUE)"
WRITE = "INSERT INTO notes (scope, note) VALUES (:scope, :note)"


@dataclass(frozen=True, slots=True)
class Place:
    """One database, seen from a connection of nobody's that commits at once."""

    url: str

    @property
    def is_sqlite(self) -> bool:
        return self.url.startswith("sqlite:")

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What is committed, to whoever asks now."""
        with closing(self.connect()) as connection:
            return [tuple(row) for row in connection.execute(sql).fetchall()]

    def run(self, sql: str) -> None:
        """Change something at once."""
        with closing(self.connect()) as connection:
            connection.execute(sql)

    def connect(self) -> Any:
        """A connection that commits by itself."""
        if self.is_sqlite:
            return sqlite3.connect(path_of(self.url), isolation_level=None)
        return psycopg.connect(self.url, autocommit=True)

    def claims(self, scope: str, prefix: str = "duly_") -> list[str]:
        """The keys that are committed in a scope."""
        found = self.rows(f"SELECT key_text FROM {prefix}claims WHERE scope = '{scope}' ORDER BY 1")
        return [key for (key,) in found]

    def notes(self, scope: str) -> list[str]:
        """The user's own rows that are committed in a scope."""
        found = self.rows(f"SELECT note FROM notes WHERE scope = '{scope}' ORDER BY 1")
        return [note for (note,) in found]

    def tables(self) -> set[str]:
        """The tables that are committed, without their schema."""
        source = "sqlite_master" if self.is_sqlite else "pg_tables"
        column = "name" if self.is_sqlite else "tablename"
        return {name for (name,) in self.rows(f"SELECT {column} FROM {source}")}

    @contextmanager
    def held(self, scope: str, key: str) -> Iterator[None]:
        """Somebody else has claimed the key and not committed yet; at the end they give up."""
        with closing(self.connect()) as connection:
            connection.execute("BEGIN IMMEDIATE" if self.is_sqlite else "BEGIN")
            assert duly.dedup(connection, scope, key).first
            yield
            connection.execute("ROLLBACK")


def settle_in(url: str) -> Place:
    """Make duly's tables and the user's."""
    with duly.store(url) as store:
        store.migrate()
    place = Place(url)
    place.run(NOTES)
    return place
