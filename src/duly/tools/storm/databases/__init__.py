"""The database of a storm as whoever runs it sees it: made, looked at, struck, cleared."""

from duly.tools.storm.databases.asked import Left, Look, Unreachable
from duly.tools.storm.databases.choosing import database_of
from duly.tools.storm.databases.postgres import PostgresDatabase
from duly.tools.storm.databases.servers import Server, server_pid
from duly.tools.storm.databases.sqlite import SqliteDatabase

__all__ = [
    "Left",
    "Look",
    "PostgresDatabase",
    "Server",
    "SqliteDatabase",
    "Unreachable",
    "database_of",
    "server_pid",
]
