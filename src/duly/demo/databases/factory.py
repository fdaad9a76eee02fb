"""Which kind of database a storm has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.demo.databases.postgres import PostgresDatabase
from duly.demo.databases.sqlite import SqliteDatabase

if TYPE_CHECKING:
    from duly.demo.settings import Settings


def database_of(settings: Settings) -> SqliteDatabase | PostgresDatabase:
    """The database of a storm."""
    return SqliteDatabase(settings) if settings.on_sqlite else PostgresDatabase(settings)
