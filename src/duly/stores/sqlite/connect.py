"""duly's own SQLite connection: WAL, full durability, one writer."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from duly._kernel.errors import UnsafeStore

if TYPE_CHECKING:
    from pathlib import Path

OLDEST = (3, 37, 0)  # STRICT tables


def connect(path: Path, *, durable: bool) -> sqlite3.Connection:
    """Open the database file; ``durable`` makes each COMMIT reach the disk before it returns."""
    refuse_old_sqlite()
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        # Only the first opener switches the file, and must then wait for whoever is writing.
        connection.execute("PRAGMA busy_timeout = 10000")
        [mode] = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise UnsafeStore(
                f"SQLite cannot use its write-ahead log here (journal mode is {mode}): "
                "put the database on a local disk"
            )
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
    except BaseException:
        connection.close()
        raise
    return connection


def refuse_old_sqlite() -> None:
    """STRICT tables and RETURNING need a recent SQLite."""
    if sqlite3.sqlite_version_info < OLDEST:
        raise UnsafeStore(
            f"SQLite {sqlite3.sqlite_version} is too old: duly needs "
            f"{'.'.join(map(str, OLDEST))} or newer"
        )
