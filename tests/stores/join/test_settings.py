"""The user's settings are theirs: duly reads by its own, and leaves theirs as they were."""

import sqlite3
from collections.abc import Mapping
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import pytest
from psycopg.rows import namedtuple_row

from tests.stores.join.places import Place
from tests.stores.join.postgres_handles import AsyncpgHandle, PsycopgAsyncHandle, PsycopgHandle
from tests.stores.join.sqlite_handles import AiosqliteHandle, Sqlite3Handle, path_of
from tests.stores.join.test_promises import use_every_verb
from tests.stores.join.ways import WAYS, Handle, Way

only = {way.name: pytest.mark.parametrize("way", [way], ids=str) for way in WAYS}


def settings(connection: object, *names: str) -> Mapping[str, Any]:
    return {name: getattr(connection, name) for name in names}


async def use(user: Handle, scope: str) -> None:
    """Every verb, first and again, in a transaction that is rolled back."""
    await user.begin()
    assert await use_every_verb(user, scope) == [True] * 5
    assert (await user.dedup(scope, "a", body=b"other")).duplicate
    async with user.once(scope, "d") as turn:
        assert turn.result == {"did": "work"}
    assert not await user.newer("order-1", 3, scope=scope)
    assert await user.migrate() == []
    await user.rollback()


@only["sqlite3"]
async def test_sqlite3_keeps_its_factories_and_its_mode(way: Way, place: Place, scope: str) -> None:
    names = ("row_factory", "text_factory", "isolation_level")
    connection = sqlite3.connect(path_of(place.url), isolation_level="EXCLUSIVE")
    connection.row_factory = lambda _, row: {"surprise": row}
    connection.text_factory = bytes
    before = settings(connection, *names)
    await use(Sqlite3Handle(connection), scope)
    assert settings(connection, *names) == before
    connection.close()


@only["aiosqlite"]
async def test_aiosqlite_keeps_its_factories_and_its_mode(
    way: Way, place: Place, scope: str
) -> None:
    names = ("row_factory", "text_factory", "isolation_level")
    async with aiosqlite.connect(path_of(place.url), isolation_level="IMMEDIATE") as connection:
        connection.row_factory = aiosqlite.Row
        connection.text_factory = bytes
        before = settings(connection, *names)
        await use(AiosqliteHandle(connection), scope)
        assert settings(connection, *names) == before


PSYCOPG = (
    "row_factory",
    "cursor_factory",
    "autocommit",
    "isolation_level",
    "read_only",
    "deferrable",
    "prepare_threshold",
)


@only["psycopg"]
async def test_psycopg_keeps_its_factories_and_its_mode(way: Way, place: Place, scope: str) -> None:
    with psycopg.connect(
        place.url, row_factory=namedtuple_row, cursor_factory=psycopg.RawCursor
    ) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.prepare_threshold = 0
        before = settings(connection, *PSYCOPG)
        await use(PsycopgHandle(connection), scope)
        assert settings(connection, *PSYCOPG) == before


@only["psycopg-async"]
async def test_psycopg_async_keeps_its_factories_and_its_mode(
    way: Way, place: Place, scope: str
) -> None:
    async with await psycopg.AsyncConnection.connect(
        place.url, row_factory=namedtuple_row, cursor_factory=psycopg.AsyncRawCursor
    ) as connection:
        await connection.set_isolation_level(psycopg.IsolationLevel.SERIALIZABLE)
        connection.prepare_threshold = None
        before = settings(connection, *PSYCOPG)
        await use(PsycopgAsyncHandle(connection), scope)
        assert settings(connection, *PSYCOPG) == before


class Record(asyncpg.Record):  # type: ignore[misc] # asyncpg ships no types
    """A record class of the user's."""


@only["asyncpg"]
async def test_asyncpg_keeps_its_records_and_codecs(way: Way, place: Place, scope: str) -> None:
    connection = await asyncpg.connect(place.url, record_class=Record, statement_cache_size=0)
    await connection.set_type_codec(
        "timestamptz", schema="pg_catalog", encoder=str, decoder=lambda text: f"at {text}"
    )
    await use(AsyncpgHandle(connection), scope)
    [row] = await connection.fetch("SELECT timestamptz 'epoch' AS moment")
    assert isinstance(row, Record)
    assert row["moment"].startswith("at ")
    await connection.close()


@pytest.mark.parametrize("way", [way for way in WAYS if way.store == "postgres"], ids=str)
async def test_settings_of_the_session_and_the_transaction_are_as_they_were(
    way: Way, place: Place, scope: str
) -> None:
    read = "SELECT name, setting FROM pg_settings WHERE name <> 'transaction_isolation' ORDER BY 1"
    async with way.open(place.url) as user:
        await user.begin()
        before = await user.fetch(read)
        await use_every_verb(user, scope)
        assert await user.fetch(read) == before
        await user.rollback()


@pytest.mark.parametrize("way", [way for way in WAYS if way.store == "sqlite"], ids=str)
@pytest.mark.parametrize(
    "name",
    ["busy_timeout", "foreign_keys", "synchronous", "journal_mode", "locking_mode", "query_only"],
)
async def test_pragmas_are_as_they_were(way: Way, place: Place, scope: str, name: str) -> None:
    async with way.open(place.url) as user:
        await user.begin()
        before = await user.fetch(f"PRAGMA {name}")
        await use_every_verb(user, scope)
        assert await user.fetch(f"PRAGMA {name}") == before
        await user.rollback()
