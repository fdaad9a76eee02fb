# ruff: noqa: D102 - what each verb does is said once, in benchmarks.measures.Side
"""SQLite by hand, on ``sqlite3``: WAL, ``synchronous=FULL``, one connection.

The async peer is the same code on a thread of its own: one hop for each claim, where aiosqlite
makes one for each statement. Only `once`, which is about the caller's own connection, uses
aiosqlite on both sides.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.peers.keys import LEASE, NUMBER, SCOPE, TTL, digest, ordered, token

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    import aiosqlite

SETTINGS = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA busy_timeout = 2000")
CLAIM = """
INSERT INTO duly_claims (scope, digest, key_text, first_seen, expires_at, state, token, epoch,
                         lease_until)
VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?)
    ON CONFLICT DO NOTHING
RETURNING epoch, first_seen
"""
READ = """
SELECT first_seen, expires_at, result FROM duly_claims WHERE scope = ? AND digest = ?
"""
MARK = """
UPDATE duly_claims SET state = 'done', lease_until = NULL, expires_at = ?
 WHERE scope = ? AND digest = ? AND state = 'held' AND token = ? AND epoch = ?
RETURNING epoch
"""
ADVANCE = """
INSERT INTO duly_versions AS applied (scope, digest, kind, version, token) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (scope, digest) DO UPDATE SET version = excluded.version, token = excluded.token
 WHERE applied.kind = excluded.kind AND applied.version < excluded.version
RETURNING kind
"""


def connect(path: Path) -> sqlite3.Connection:
    """A connection that commits each statement outside BEGIN by itself."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    for setting in SETTINGS:
        connection.execute(setting)
    return connection


def claim_values(key: str) -> tuple[object, ...]:
    now = time.time_ns() // 1000
    return SCOPE, digest(key), key, now, now + TTL, "done", token(), None


class SqlitePeer:
    """One caller, one connection."""

    def __init__(self, connection: sqlite3.Connection, *, lean: bool) -> None:
        self._connection = connection
        self._begin = nothing if lean else partial(connection.execute, "BEGIN IMMEDIATE")
        self._commit = nothing if lean else partial(connection.execute, "COMMIT")

    def dedup(self, key: str) -> bool:
        self._begin()
        first = self._claim(key)
        self._commit()
        return first

    def _claim(self, key: str) -> bool:
        values = claim_values(key)
        if self._connection.execute(CLAIM, values).fetchall():
            return True
        self._connection.execute(READ, values[:2]).fetchall()
        return False

    def dedup_many(self, keys: Sequence[str]) -> bool:
        execute, first = self._connection.execute, True
        execute("BEGIN IMMEDIATE")
        for values in sorted(map(claim_values, keys)):
            if not execute(CLAIM, values).fetchall():
                execute(READ, values[:2]).fetchall()
                first = False
        execute("COMMIT")
        return first

    def once(self, key: str) -> bool:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        execute("SAVEPOINT work")
        first = self._claim(key)
        execute("RELEASE work")
        execute("COMMIT")
        return first

    def lease(self, key: str) -> bool:
        execute, now = self._connection.execute, time.time_ns() // 1000
        name, mine = digest(key), token()
        held = (SCOPE, name, key, now, now + TTL, "held", mine, now + LEASE)
        self._begin()
        made = execute(CLAIM, held).fetchall()
        self._commit()
        if not made:
            return False
        later = time.time_ns() // 1000 + TTL
        self._begin()
        marked = execute(MARK, (later, SCOPE, name, mine, made[0][0])).fetchall()
        self._commit()
        return len(marked) == 1

    def newer(self, resource: str, version: int) -> bool:
        values = (SCOPE, digest(resource), NUMBER, ordered(version), token())
        self._begin()
        applied = self._connection.execute(ADVANCE, values).fetchall()
        self._commit()
        return len(applied) == 1


def nothing() -> None:
    """What a lean peer does instead of BEGIN and COMMIT."""


class LockedPeer:
    """Many threads, one connection, one lock around each claim."""

    def __init__(self, peer: SqlitePeer) -> None:
        self._peer = peer
        self._lock = threading.Lock()

    def dedup(self, key: str) -> bool:
        with self._lock:
            return self._peer.dedup(key)


class AwaitedPeer:
    """The blocking peer on a thread of its own, and aiosqlite where the connection is given."""

    def __init__(
        self, peer: SqlitePeer, thread: ThreadPoolExecutor, given: aiosqlite.Connection
    ) -> None:
        self._peer = peer
        self._thread = thread
        self._given = given

    async def dedup(self, key: str) -> bool:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._peer.dedup, key)

    async def dedup_many(self, keys: Sequence[str]) -> bool:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._peer.dedup_many, keys)

    async def once(self, key: str) -> bool:
        given, values = self._given, claim_values(key)
        await given.execute("BEGIN IMMEDIATE")
        await given.execute("SAVEPOINT work")
        first = bool(await given.execute_fetchall(CLAIM, values))
        if not first:
            await given.execute_fetchall(READ, values[:2])
        await given.execute("RELEASE work")
        await given.execute("COMMIT")
        return first

    async def lease(self, key: str) -> bool:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._peer.lease, key)

    async def newer(self, resource: str, version: int) -> bool:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._peer.newer, resource, version)
