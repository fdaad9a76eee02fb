"""duly's own SQLite connection: WAL, full durability, one writer."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING

from duly.core.errors import UnsafeStore
from duly.stores.sqlite.connection import WriterConnection

if TYPE_CHECKING:
    from datetime import timedelta
    from pathlib import Path

OLDEST = (3, 37, 0)  # STRICT tables
# Seconds between two tries; the file is switched once in its life.
POLL = 0.01


def connect(path: Path, *, durable: bool, wait: timedelta) -> WriterConnection:
    """Open the database file; ``durable`` makes each COMMIT reach the disk before it returns."""
    refuse_old_sqlite()
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, factory=WriterConnection
    )
    try:
        switch_to_wal(connection, time.monotonic() + wait.total_seconds())
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
    except BaseException:
        connection.close()
        raise
    return connection


def switch_to_wal(connection: sqlite3.Connection, deadline: float) -> None:
    """Put the file into write-ahead mode, where it is not yet."""
    mode = None
    while mode is None:
        try:
            [mode] = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as problem:
            # Somebody is writing, or switching at the same moment; SQLite itself does not wait.
            busy = problem.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(POLL)
    if mode != "wal":
        raise UnsafeStore(
            f"SQLite cannot use its write-ahead log here (journal mode is {mode}): "
            "put the database on a local disk"
        )


def refuse_old_sqlite() -> None:
    """STRICT tables and RETURNING need a recent SQLite."""
    if sqlite3.sqlite_version_info < OLDEST:
        raise UnsafeStore(
            f"SQLite {sqlite3.sqlite_version} is too old: duly needs "
            f"{'.'.join(map(str, OLDEST))} or newer"
        )
