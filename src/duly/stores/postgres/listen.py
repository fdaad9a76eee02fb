"""Wake-ups for new jobs by PostgreSQL's NOTIFY, where notifications arrive.

Behind a transaction pooler the connection serves other clients, and no notification arrives. So
each listener first sends one to itself; without it, polling does the work alone.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.stores.postgres.connect import PostgresTarget

# Seconds for the notification to itself; a healthy server takes a millisecond.
PROBE = 2.0
# Seconds before the next connection after one was lost, give or take.
RECONNECT_DELAY = 1.0


async def listen(target: PostgresTarget, heard: Callable[[], None]) -> bool:
    """Call ``heard`` at each notification, for ever; return False where none arrive."""
    while True:
        try:
            async with await open_connection(target) as connection:
                if not await start_listening(connection, target):
                    return False
                heard()  # notifications may have been lost before LISTEN
                async for _ in connection.notifies():
                    heard()
        except (psycopg.Error, OSError):
            await asyncio.sleep(RECONNECT_DELAY * (0.5 + random.random()))  # noqa: S311


async def open_connection(target: PostgresTarget) -> psycopg.AsyncConnection:
    """A connection of its own."""
    return await psycopg.AsyncConnection.connect(**{**target.settings, "prepare_threshold": None})


async def start_listening(connection: psycopg.AsyncConnection, target: PostgresTarget) -> bool:
    """LISTEN, and return whether a notification arrives.

    The probe is sent through a second connection: a connection gets its own even behind a pooler.
    """
    channel, word = f"{target.names.prefix}jobs", secrets.token_hex(8)
    await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
    async with await open_connection(target) as other:
        await other.execute("SELECT pg_notify(%s, %s)", (channel, word))
    async for notification in connection.notifies(timeout=PROBE):
        if notification.payload == word:
            return True
    return False
