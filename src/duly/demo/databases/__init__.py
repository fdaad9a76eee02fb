"""The database of a storm as whoever runs it sees it: made, looked at, struck, cleared."""

from duly.demo.databases.base import Remaining, StormProgress, Unreachable
from duly.demo.databases.factory import database_of
from duly.demo.databases.postgres import PostgresDatabase
from duly.demo.databases.servers import Server, server_pid
from duly.demo.databases.sqlite import SqliteDatabase

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
