"""Promises at the edges of a wait and of a turn: nothing is hidden, dropped or taken twice."""

from __future__ import annotations

import sqlite3
import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

import duly
from duly.errors import InProgress, LeaseLost, StoreUnavailable, UnsafeStore, UsageError
from tests.support.servers.databases import on_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.types import Store

LEASE = timedelta(hours=1)
LONG = timedelta(days=30)
SECRET = "whsec_" + "A" * 32


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    with duly.store(request.getfixturevalue(f"{request.param}_url")) as opened:
        yield opened


def test_a_long_wait_is_as_long_as_the_database_can_count(
    store: Store, scope: str, postgres_url: str
) -> None:
    assert duly.dedup(store, scope, "a", wait=LONG).first
    with psycopg.connect(postgres_url) as connection:
        assert duly.dedup(connection, scope, "b", wait=LONG).first


def test_a_long_wait_on_sqlite_waits(sqlite_url: str) -> None:
    with duly.store(sqlite_url) as store:
        other = sqlite3.connect(
            sqlite_url.removeprefix("sqlite:///"), isolation_level=None, check_same_thread=False
        )
        other.execute("BEGIN IMMEDIATE")
        letting_go = threading.Timer(0.3, other.execute, ["ROLLBACK"])
        letting_go.start()
        assert duly.dedup(store, "s", "a", wait=LONG).first
        letting_go.join()
        other.close()


def test_a_turn_is_entered_once_even_by_two_at_the_same_time(store: Store, scope: str) -> None:
    turns = duly.once(store, scope, "a", lease=LEASE)
    with turns as turn:
        assert turn.first
        with pytest.raises(UsageError, match="used before"):
            turns.__enter__()


def test_a_turn_that_was_marked_takes_no_second_result(store: Store, scope: str) -> None:
    with duly.once(store, scope, "a", lease=LEASE) as turn:
        turn.mark("first")
        with pytest.raises(UsageError, match="is over"):
            turn.mark("second")
        with pytest.raises(UsageError, match="is over"):
            turn.renew()
        with pytest.raises(UsageError, match="is over"):
            turn.result = "third"
    with pytest.raises(UsageError, match="is over"):
        turn.mark("fourth")
    with duly.once(store, scope, "a", lease=LEASE) as turn:
        assert turn.result == "first"


def test_an_error_after_a_joined_mark_does_not_wait_for_the_users_own_lock(
    postgres_url: str, scope: str
) -> None:
    with duly.store(postgres_url) as store, psycopg.connect(postgres_url) as connection:
        with (
            pytest.raises(ValueError, match="mine"),
            duly.once(store, scope, "a", LEASE, lease=LEASE, wait=timedelta(minutes=5)) as turn,
        ):
            turn.mark("done", tx=connection)
            raise ValueError("mine")
        connection.commit()
        assert duly.dedup(store, scope, "a").duplicate


def test_the_error_that_ends_a_turn_is_not_hidden_by_giving_it_back(
    own_postgres_url: str, scope: str
) -> None:
    with (
        duly.store(own_postgres_url) as store,
        psycopg.connect(own_postgres_url, autocommit=True) as administrator,
        pytest.raises(ValueError, match="mine"),
        duly.once(store, scope, "a", lease=LEASE),
    ):
        administrator.execute("ALTER TABLE duly_claims RENAME TO gone")
        raise ValueError("mine")


def test_what_a_server_refuses_comes_out_in_dulys_words(own_postgres_url: str, scope: str) -> None:
    with psycopg.connect(own_postgres_url, autocommit=True) as administrator:
        name = administrator.info.dbname
        administrator.execute(
            SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(Identifier(name))
        )
    with (
        duly.store(own_postgres_url) as store,
        pytest.raises(StoreUnavailable, match="takes no writes"),
    ):
        duly.dedup(store, scope, "a")


def test_a_statement_timeout_while_somebody_holds_the_key_is_held(
    own_postgres_url: str, scope: str
) -> None:
    with psycopg.connect(own_postgres_url, autocommit=True) as administrator:
        name = administrator.info.dbname
        administrator.execute(
            SQL("ALTER DATABASE {} SET statement_timeout = '200ms'").format(Identifier(name))
        )
    with psycopg.connect(own_postgres_url) as holder, duly.store(own_postgres_url) as store:
        assert duly.dedup(holder, scope, "a").first
        with pytest.raises(InProgress):
            duly.dedup(store, scope, "a")


def test_a_database_without_an_encoding_is_looked_at_as_closely(
    postgres_server: str, scope: str
) -> None:
    name = Identifier(f"plain_{scope.replace('-', '_')[:40]}")
    create = SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'")
    with psycopg.connect(postgres_server, autocommit=True) as administrator:
        administrator.execute(create.format(name))
        try:
            url = on_database(postgres_server, name.as_string().strip('"'))
            duly.store(url).migrate()
            with psycopg.connect(url) as connection:
                assert duly.dedup(connection, scope, "a", wait=timedelta(seconds=1)).first
            unsafe = SQL("ALTER DATABASE {} SET synchronous_commit = off")
            administrator.execute(unsafe.format(name))
            with pytest.raises(UnsafeStore, match="synchronous_commit"):
                duly.store(url).open()
        finally:
            administrator.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(name))


@pytest.fixture
def unencoded_url(postgres_server: str, scope: str) -> Iterator[str]:
    """A database without an encoding, as `createdb` makes it after `initdb` in the C locale."""
    name = f"ascii_{scope.replace('-', '_')[:40]}"
    create = SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'")
    with psycopg.connect(postgres_server, autocommit=True) as administrator:
        administrator.execute(create.format(Identifier(name)))
        yield on_database(postgres_server, name)
        administrator.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


def greet(event: duly.Event, tx: duly.Tx) -> None:
    """Say what was read back from the database, in a table."""
    tx.execute("INSERT INTO greeted VALUES (:id)", id=f"{event.id} {event.json['name']}")


def test_a_database_without_an_encoding_is_worked_on(unencoded_url: str) -> None:
    duly.store(unencoded_url).migrate()
    app = duly.Duly(unencoded_url)
    app.source("orders", provider="standard-webhooks", secret=SECRET)
    app.on("orders")(greet)
    with app.transaction() as tx:
        tx.execute("CREATE TABLE greeted (it text)")
    sent = duly.sign("standard-webhooks", '{"name":"Zoë"}'.encode(), SECRET, id="msg_1")
    assert app.receive("orders", sent.headers, sent.body).status == 200
    assert app.work().done == 1
    with app.transaction() as tx:
        assert tx.execute("SELECT it FROM greeted") == [{"it": "msg_1 Zoë"}]
    app.close()


async def record(event: duly.Event, tx: duly.aio.Tx) -> None:
    """Handle an event by looking at it."""


async def test_begin_on_a_database_without_an_encoding_is_the_same_database(
    unencoded_url: str,
) -> None:
    duly.store(unencoded_url).migrate()
    engine = create_async_engine(unencoded_url.replace("postgresql:", "postgresql+asyncpg:"))
    app = duly.Duly(unencoded_url, begin=async_sessionmaker(engine))
    app.source("orders", provider="standard-webhooks", secret=SECRET, inline=True)
    app.on("orders")(record)
    sent = duly.sign("standard-webhooks", b"{}", SECRET)
    reply = await app.aio.receive("orders", sent.headers, sent.body)
    await app.aclose()
    await engine.dispose()
    assert reply.status == 200


def test_opening_waits_for_somebody_who_writes_to_the_file(sqlite_url: str) -> None:
    path = sqlite_url.removeprefix("sqlite:///")
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE theirs (n INTEGER)")
    other.execute("BEGIN IMMEDIATE")
    other.execute("INSERT INTO theirs VALUES (1)")
    letting_go = threading.Timer(0.3, other.execute, ["COMMIT"])
    letting_go.start()
    with duly.store(sqlite_url) as store:
        assert duly.dedup(store, "s", "a").first
    letting_go.join()
    other.close()


def test_opening_a_file_that_stays_locked_is_held_and_not_a_broken_disk(sqlite_url: str) -> None:
    other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("CREATE TABLE theirs (n INTEGER)")
    other.execute("BEGIN EXCLUSIVE")
    store = duly.store(sqlite_url)
    with pytest.raises(InProgress):
        duly.dedup(store, "s", "a", wait=timedelta(milliseconds=200))
    other.close()
    store.close()


def test_a_late_holder_is_told_so(store: Store, scope: str) -> None:
    with (
        pytest.raises(LeaseLost),
        duly.once(store, scope, "a", lease=timedelta(microseconds=1)) as late,
        duly.once(store, scope, "a", lease=LEASE),
    ):
        late.mark()
