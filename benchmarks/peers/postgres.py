# ruff: noqa: D102 - what each verb does is said once, in benchmarks.measures.Side
"""PostgreSQL by hand, on psycopg: prepared statements, a lock timeout on the connection.

One caller keeps one connection; many callers share a ``psycopg_pool`` of the size of duly's own.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from benchmarks.peers.keys import NUMBER, SCOPE, digest, ordered, token

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection, Connection
    from psycopg_pool import AsyncConnectionPool, ConnectionPool

# Each statement outside a transaction is committed by itself, and waits no longer than duly's.
SETTINGS: dict[str, Any] = {"autocommit": True, "options": "-c lock_timeout=2000"}


def pool_settings(*, lean: bool) -> dict[str, Any]:
    """A pool's connections begin by themselves, as psycopg's do unless told otherwise."""
    return {**SETTINGS, "autocommit": lean}


CLAIM = """
INSERT INTO peer_claims (scope, digest, key_text, first_seen, expires_at, state, token, epoch)
VALUES (%s, %s, %s, now(), now() + interval '30 days', 'done', %s, 1)
    ON CONFLICT (scope, digest) DO NOTHING
RETURNING epoch, first_seen
"""
CLAIM_MANY = """
INSERT INTO peer_claims (scope, digest, key_text, first_seen, expires_at, state, token, epoch)
SELECT %s, wanted.digest, wanted.key_text, now(), now() + interval '30 days', 'done', %s, 1
  FROM unnest(%b::bytea[], %b::text[]) AS wanted (digest, key_text)
    ON CONFLICT (scope, digest) DO NOTHING
RETURNING digest, epoch, first_seen
"""
READ = """
SELECT first_seen, expires_at <= now() AS expired, result
  FROM peer_claims WHERE scope = %s AND digest = %s
"""
READ_MANY = """
SELECT digest, first_seen, expires_at <= now() AS expired, result
  FROM peer_claims WHERE scope = %s AND digest = ANY (%b::bytea[])
"""
HOLD = """
INSERT INTO peer_claims (scope, digest, key_text, first_seen, expires_at, state, token, epoch,
                         lease_until)
VALUES (%s, %s, %s, now(), now() + interval '30 days', 'held', %s, 1, now() + interval '1 minute')
    ON CONFLICT (scope, digest) DO NOTHING
RETURNING epoch
"""
MARK = """
UPDATE peer_claims
   SET state = 'done', lease_until = NULL, expires_at = now() + interval '30 days'
 WHERE scope = %s AND digest = %s AND state = 'held' AND token = %s AND epoch = %s
RETURNING epoch
"""
ADVANCE = """
INSERT INTO peer_versions AS applied (scope, digest, kind, version, token)
VALUES (%s, %s, %s, %s, %s)
    ON CONFLICT (scope, digest) DO UPDATE SET version = excluded.version, token = excluded.token
 WHERE applied.kind = excluded.kind AND applied.version < excluded.version
RETURNING kind
"""


def claim_values(key: str) -> tuple[str, bytes, str, bytes]:
    return SCOPE, digest(key), key, token()


def batch(keys: Sequence[str]) -> tuple[list[bytes], list[str]]:
    """The arrays of a batch, in one order for every caller, so that batches cannot deadlock."""
    named = sorted((digest(key), key) for key in keys)
    return [name for name, _ in named], [key for _, key in named]


def claim(connection: Connection[Any], key: str) -> bool:
    values = claim_values(key)
    if connection.execute(CLAIM, values).fetchone() is not None:
        return True
    connection.execute(READ, values[:2]).fetchone()
    return False


async def claim_awaited(connection: AsyncConnection[Any], key: str) -> bool:
    values = claim_values(key)
    if await (await connection.execute(CLAIM, values)).fetchone() is not None:
        return True
    await (await connection.execute(READ, values[:2])).fetchone()
    return False


class PostgresPeer:
    """One caller, one connection."""

    def __init__(self, connection: Connection[Any], *, lean: bool) -> None:
        self._connection = connection
        self._transaction = nullcontext if lean else connection.transaction

    def dedup(self, key: str) -> bool:
        with self._transaction():
            return claim(self._connection, key)

    def dedup_many(self, keys: Sequence[str]) -> bool:
        names, texts = batch(keys)
        with self._connection.transaction():
            made = self._connection.execute(CLAIM_MANY, (SCOPE, token(), names, texts)).fetchall()
            if rest := sorted(set(names) - {row[0] for row in made}):
                self._connection.execute(READ_MANY, (SCOPE, rest)).fetchall()
        return not rest

    def once(self, key: str) -> bool:
        with self._connection.transaction(), self._connection.transaction():
            return claim(self._connection, key)

    def lease(self, key: str) -> bool:
        name, mine = digest(key), token()
        with self._transaction():
            made = self._connection.execute(HOLD, (SCOPE, name, key, mine)).fetchone()
        if made is None:
            return False
        with self._transaction():
            values = (SCOPE, name, mine, made[0])
            return self._connection.execute(MARK, values).fetchone() is not None

    def newer(self, resource: str, version: int) -> bool:
        values = (SCOPE, digest(resource), NUMBER, ordered(version), token())
        with self._transaction():
            return self._connection.execute(ADVANCE, values).fetchone() is not None


class AwaitedPeer:
    """The same, awaited."""

    def __init__(self, connection: AsyncConnection[Any], *, lean: bool) -> None:
        self._connection = connection
        self._transaction = nullcontext if lean else connection.transaction

    async def dedup(self, key: str) -> bool:
        async with self._transaction():
            return await claim_awaited(self._connection, key)

    async def dedup_many(self, keys: Sequence[str]) -> bool:
        names, texts = batch(keys)
        async with self._connection.transaction():
            execute = self._connection.execute
            made = await (await execute(CLAIM_MANY, (SCOPE, token(), names, texts))).fetchall()
            if rest := sorted(set(names) - {row[0] for row in made}):
                await (await execute(READ_MANY, (SCOPE, rest))).fetchall()
        return not rest

    async def once(self, key: str) -> bool:
        async with self._connection.transaction(), self._connection.transaction():
            return await claim_awaited(self._connection, key)

    async def lease(self, key: str) -> bool:
        name, mine = digest(key), token()
        async with self._transaction():
            made = await (await self._connection.execute(HOLD, (SCOPE, name, key, mine))).fetchone()
        if made is None:
            return False
        async with self._transaction():
            values = (SCOPE, name, mine, made[0])
            return await (await self._connection.execute(MARK, values)).fetchone() is not None

    async def newer(self, resource: str, version: int) -> bool:
        values = (SCOPE, digest(resource), NUMBER, ordered(version), token())
        async with self._transaction():
            return await (await self._connection.execute(ADVANCE, values)).fetchone() is not None


class PooledPeer:
    """Many threads, one pool, which commits when a connection comes back."""

    def __init__(self, pool: ConnectionPool[Any]) -> None:
        self._pool = pool

    def dedup(self, key: str) -> bool:
        with self._pool.connection() as connection:
            return claim(connection, key)


class AwaitedPooledPeer:
    """Many tasks, one pool, which commits when a connection comes back."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    async def dedup(self, key: str) -> bool:
        async with self._pool.connection() as connection:
            return await claim_awaited(connection, key)
