"""What is passed instead of a connection is refused with what to pass."""

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import psycopg_pool
import pytest
from django.db import connections
from sqlalchemy import create_engine, create_mock_engine, make_url
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

import duly
from duly.errors import NotJoinable
from duly.stores.join.recognise import REMEDIES

SQLITE, SQLITE_ASYNC = "sqlite://", "sqlite+aiosqlite://"
NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"


@contextmanager
def forgotten() -> Iterator[None]:
    """A block whose ``with`` was forgotten."""
    yield


@asynccontextmanager
async def forgotten_async() -> AsyncIterator[None]:
    """A block whose ``async with`` was forgotten."""
    yield


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "a URL": (lambda: "postgresql://shop:secret@host/shop", r"duly\.store\(url\)"),
    "a SQLite URL": (lambda: "sqlite:///x", r"duly\.store\(url\)"),
    "a URL as bytes": (lambda: b"sqlite:///x", r"duly\.store\(url\)"),
    "a URL of SQLAlchemy's": (lambda: make_url(SQLITE), r"duly\.store\(url\)"),
    "a path": (lambda: Path("shop.db"), r"duly\.store\("),
    "nothing": (lambda: None, r"pass a duly\.store"),
    "a number": (lambda: 7, r"pass a duly\.store"),
    "an engine": (lambda: create_engine(SQLITE), r"with engine\.begin\(\)"),
    "an async engine": (lambda: create_async_engine(SQLITE_ASYNC), r"async with engine\.begin"),
    "a sessionmaker": (lambda: sessionmaker(create_engine(SQLITE)), r"with maker\.begin\(\)"),
    "an async sessionmaker": (async_sessionmaker, r"async with maker\.begin\(\)"),
    "a psycopg pool": (
        lambda: psycopg_pool.ConnectionPool(NOWHERE, open=False),
        r"with pool\.connection\(\)",
    ),
    "a null pool": (
        lambda: psycopg_pool.NullConnectionPool(NOWHERE, open=False),
        r"with pool\.connection\(\)",
    ),
    "an async psycopg pool": (
        lambda: psycopg_pool.AsyncConnectionPool(NOWHERE, open=False),
        r"async with pool\.connection\(\)",
    ),
    "a forgotten with": (forgotten, "enter it first, `with"),
    "a forgotten async with": (forgotten_async, "enter it first, `async with"),
    "django.db.connections": (lambda: connections, r'connections\["default"\]'),
}


@pytest.mark.parametrize(("make", "remedy"), MISTAKES.values(), ids=MISTAKES)
async def test_a_mistake_is_answered_with_what_to_pass(
    make: Callable[[], Any], remedy: str
) -> None:
    with pytest.raises(NotJoinable, match=remedy) as blocking:
        duly.dedup(make(), "scope", "evt")
    with pytest.raises(NotJoinable, match=remedy):
        await duly.aio.dedup(make(), "scope", "evt")
    with pytest.raises(NotJoinable, match=remedy):
        duly.once(make(), "scope", "evt")
    assert "secret" not in str(blocking.value)


def test_a_cursor_is_answered_with_its_connection(postgres_url: str) -> None:
    connection = sqlite3.connect(":memory:")
    with pytest.raises(NotJoinable, match="pass its connection"):
        duly.dedup(connection.cursor(), "scope", "evt")
    connection.close()
    with psycopg.connect(postgres_url) as other:
        for cursor in (other.cursor(), psycopg.ClientCursor(other)):
            with pytest.raises(NotJoinable, match="pass its connection"):
                duly.dedup(cursor, "scope", "evt")
        with (
            other.transaction() as transaction,
            pytest.raises(NotJoinable, match="pass the connection it was begun on"),
        ):
            duly.dedup(transaction, "scope", "evt")


async def test_an_awaited_cursor_is_answered_with_its_connection() -> None:
    async with aiosqlite.connect(":memory:") as connection, connection.cursor() as cursor:
        with pytest.raises(NotJoinable, match="pass its connection"):
            await duly.aio.dedup(cursor, "scope", "evt")


async def test_asyncpgs_pool_and_transaction_are_answered_with_the_connection(
    postgres_url: str,
) -> None:
    async with asyncpg.create_pool(postgres_url, min_size=1, max_size=1) as pool:
        with pytest.raises(NotJoinable, match=r"async with pool\.acquire\(\)"):
            await duly.aio.dedup(pool, "scope", "evt")
        async with pool.acquire() as connection:
            with pytest.raises(NotJoinable, match="pass the connection it was begun on"):
                await duly.aio.dedup(connection.transaction(), "scope", "evt")


async def test_what_was_not_awaited_yet_is_answered_with_await() -> None:
    pending = psycopg.AsyncConnection.connect(NOWHERE)
    with pytest.raises(NotJoinable, match="await it first"):
        await duly.aio.dedup(pending, "scope", "evt")
    pending.close()


def test_a_transaction_of_sqlalchemys_is_answered_with_its_connection() -> None:
    engine = create_engine(SQLITE)
    with (
        engine.connect() as connection,
        pytest.raises(NotJoinable, match="pass the connection it was begun on"),
    ):
        duly.dedup(connection.begin(), "scope", "evt")
    with Session(engine) as session, pytest.raises(NotJoinable, match="pass the session"):
        duly.dedup(session.begin(), "scope", "evt")
    engine.dispose()


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("postgresql+psycopg2://", r"postgresql\+psycopg2 .*use postgresql\+psycopg://"),
        ("postgresql+pg8000://", r"postgresql\+pg8000 .*use postgresql\+psycopg://"),
        ("mysql+pymysql://", "PostgreSQL and SQLite"),
    ],
)
def test_a_driver_of_sqlalchemys_that_has_no_wire_is_refused_before_it_connects(
    url: str, remedy: str
) -> None:
    engine: Any = create_mock_engine(f"{url}host/shop", pytest.fail)
    with pytest.raises(NotJoinable, match=remedy):
        duly.dedup(Session(engine), "scope", "evt")
    with pytest.raises(NotJoinable, match=remedy):
        duly.once(Session(engine), "scope", "evt")


def test_a_connection_of_another_driver_is_answered_with_ours() -> None:
    made = type("connection", (), {"__module__": "psycopg2.extensions"})
    with pytest.raises(NotJoinable, match="use psycopg 3"):
        duly.dedup(made(), "scope", "evt")


def test_every_remedy_is_a_sentence_that_says_what_to_pass() -> None:
    for remedy in REMEDIES.values():
        assert any(word in remedy for word in ("pass", "use", "joins")), remedy
