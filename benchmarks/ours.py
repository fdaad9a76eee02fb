# ruff: noqa: D102 - what each verb does is said once, in benchmarks.measures.Side
"""duly's side of each measure: the public verbs, as a user would call them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import duly
from duly import aio

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    import aiosqlite
    from psycopg import AsyncConnection, Connection

    from duly.stores.store import Store

SCOPE = "bench"
LEASE = timedelta(minutes=1)


class Ours:
    """A store for what is committed by itself."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def dedup(self, key: str) -> bool:
        return duly.dedup(self._store, SCOPE, key).first

    def dedup_many(self, keys: Sequence[str]) -> bool:
        return all(answer.first for answer in duly.dedup_many(self._store, SCOPE, keys))

    def lease(self, key: str) -> bool:
        with duly.once(self._store, SCOPE, key, lease=LEASE) as turn:
            return turn.first

    def newer(self, resource: str, version: int) -> bool:
        return duly.newer(self._store, resource, version)


class OursOnSqlite(Ours):
    """With the user's own ``sqlite3`` connection for `once`."""

    def __init__(self, store: Store, given: sqlite3.Connection) -> None:
        super().__init__(store)
        self._given = given

    def once(self, key: str) -> bool:
        self._given.execute("BEGIN IMMEDIATE")
        with duly.once(self._given, SCOPE, key) as turn:
            first = turn.first
        self._given.execute("COMMIT")
        return first


class OursOnPostgres(Ours):
    """With the user's own psycopg connection for `once`."""

    def __init__(self, store: Store, given: Connection[Any]) -> None:
        super().__init__(store)
        self._given = given

    def once(self, key: str) -> bool:
        with self._given.transaction(), duly.once(self._given, SCOPE, key) as turn:
            return turn.first


class Awaited:
    """The same verbs, awaited."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def dedup(self, key: str) -> bool:
        return (await aio.dedup(self._store, SCOPE, key)).first

    async def dedup_many(self, keys: Sequence[str]) -> bool:
        return all(answer.first for answer in await aio.dedup_many(self._store, SCOPE, keys))

    async def lease(self, key: str) -> bool:
        async with aio.once(self._store, SCOPE, key, lease=LEASE) as turn:
            return turn.first

    async def newer(self, resource: str, version: int) -> bool:
        return await aio.newer(self._store, resource, version)


class AwaitedOnSqlite(Awaited):
    """With the user's own aiosqlite connection for `once`."""

    def __init__(self, store: Store, given: aiosqlite.Connection) -> None:
        super().__init__(store)
        self._given = given

    async def once(self, key: str) -> bool:
        await self._given.execute("BEGIN IMMEDIATE")
        async with aio.once(self._given, SCOPE, key) as turn:
            first = turn.first
        await self._given.execute("COMMIT")
        return first


class AwaitedOnPostgres(Awaited):
    """With the user's own psycopg connection for `once`."""

    def __init__(self, store: Store, given: AsyncConnection[Any]) -> None:
        super().__init__(store)
        self._given = given

    async def once(self, key: str) -> bool:
        async with self._given.transaction(), aio.once(self._given, SCOPE, key) as turn:
            return turn.first
