"""Which kind of database a storm has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.tools.storm.databases.postgres import PostgresDatabase
from duly.tools.storm.databases.sqlite import SqliteDatabase

if TYPE_CHECKING:
    from duly.tools.storm.settings import Settings


def database_of(settings: Settings) -> SqliteDatabase | PostgresDatabase:
    """The database of a storm."""
    return SqliteDatabase(settings) if settings.on_sqlite else PostgresDatabase(settings)
