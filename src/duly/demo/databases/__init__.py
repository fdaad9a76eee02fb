"""The database of a storm as the orchestrator sees it: created, read, crashed, dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.demo.databases.base import Remaining, StormProgress, Unreachable
from duly.demo.databases.postgres import PostgresDatabase, Server, server_pid
from duly.demo.databases.sqlite import SqliteDatabase

if TYPE_CHECKING:
    from duly.demo.settings import Settings

__all__ = [
    "PostgresDatabase",
    "Remaining",
    "Server",
    "SqliteDatabase",
    "StormProgress",
    "Unreachable",
    "database_of",
    "server_pid",
]


def database_of(settings: Settings) -> SqliteDatabase | PostgresDatabase:
    """Return the database of a storm."""
    return SqliteDatabase(settings) if settings.on_sqlite else PostgresDatabase(settings)
