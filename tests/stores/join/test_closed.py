"""A connection that was closed, given back or never opened is refused, not tripped over."""

import sqlite3
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import pytest
from django.db import connections, transaction
from sqlalchemy import NullPool, create_engine
from sqlalchemy.ext.asyncio import create_async_engine

import duly
from duly.errors import NotJoinable
from tests.stores.join.django_handles import django_handle
from tests.stores.join.sqlalchemy_handles import engine_url


def refused(connection: Any) -> None:
    with pytest.raises(NotJoinable, match=r"closed|open"):
        duly.dedup(connection, "scope", "evt")
    with (
        pytest.raises(NotJoinable, match=r"closed|open"),
        duly.once(connection, "scope", "evt"),
    ):
        pytest.fail("there is no connection")


async def refused_async(connection: Any) -> None:
    with pytest.raises(NotJoinable, match=r"closed|open"):
        await duly.aio.dedup(connection, "scope", "evt")
    with pytest.raises(NotJoinable, match=r"closed|open"):
        async with duly.aio.once(connection, "scope", "evt"):
            pytest.fail("there is no connection")


def test_a_closed_sqlite3_connection_is_refused() -> None:
    connection = sqlite3.connect(":memory:")
    connection.close()
    refused(connection)


async def test_a_closed_aiosqlite_connection_is_refused() -> None:
    connection = await aiosqlite.connect(":memory:")
    await connection.close()
    await refused_async(connection)


async def test_an_aiosqlite_connection_that_was_never_awaited_is_refused() -> None:
    await refused_async(aiosqlite.connect(":memory:"))


def test_a_closed_psycopg_connection_is_refused(postgres_url: str) -> None:
    connection = psycopg.connect(postgres_url)
    connection.close()
    refused(connection)


def test_a_psycopg_connection_whose_server_hung_up_is_refused(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
        refused(connection)


async def test_a_closed_psycopg_async_connection_is_refused(postgres_url: str) -> None:
    connection = await psycopg.AsyncConnection.connect(postgres_url)
    await connection.close()
    await refused_async(connection)


async def test_a_closed_asyncpg_connection_is_refused(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    await connection.close()
    await refused_async(connection)


async def test_a_connection_that_was_given_back_to_asyncpgs_pool_is_refused(
    postgres_url: str,
) -> None:
    async with asyncpg.create_pool(postgres_url, min_size=1, max_size=1) as pool:
        async with pool.acquire() as connection:
            pass
        await refused_async(connection)


@pytest.mark.parametrize("driver", ["pysqlite", "psycopg"])
def test_a_closed_sqlalchemy_connection_is_refused(
    driver: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("sqlite_url" if driver == "pysqlite" else "postgres_url")
    connection = create_engine(engine_url(url, driver), poolclass=NullPool).connect()
    connection.close()
    refused(connection)


@pytest.mark.parametrize("driver", ["aiosqlite", "psycopg", "asyncpg"])
async def test_a_closed_sqlalchemy_async_connection_is_refused(
    driver: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("sqlite_url" if driver == "aiosqlite" else "postgres_url")
    engine = create_async_engine(engine_url(url, driver), poolclass=NullPool)
    async with engine.connect() as connection:
        pass
    await refused_async(connection)


async def test_a_sqlalchemy_async_connection_that_was_never_started_is_refused(
    sqlite_url: str,
) -> None:
    engine = create_async_engine(engine_url(sqlite_url, "aiosqlite"), poolclass=NullPool)
    await refused_async(engine.connect())


async def test_a_django_connection_that_was_closed_inside_atomic_is_refused(
    postgres_url: str,
) -> None:
    async with django_handle(postgres_url) as user:
        with transaction.atomic(using=user.alias):
            connections[user.alias].close()
            refused(user.connection)
