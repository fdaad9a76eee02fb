"""The sample shop on PostgreSQL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import duly
from duly.core.defaults import names
from duly.prove.assertion import assert_effectively_once
from duly.prove.databases.postgres import RestorablePostgres, aside_name
from tests.prove.expected import MISTAKES, RIGHT, Mistaken
from tests.prove.proofs import APPS, EVENTS, proof, shop
from tests.support.servers.databases import database_of, on_database
from tests.support.servers.postgresql import Postgres, find, origins, url_at
from tests.support.servers.running import running

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

SHOP = APPS / "postgres_shop.py"


def some(cases: list[Any], *names: str) -> list[Any]:
    """All of them; those that are not named here only in the long form of the tests."""
    short = [case for case in cases if {*names} & {*case, *case[0]}]
    return [case if case in short else pytest.param(case, marks=pytest.mark.long) for case in cases]


@pytest.mark.parametrize("planted", some(MISTAKES, "points"), ids=lambda one: one.name)
def test_a_planted_mistake_is_found_and_told_with_its_remedy(
    planted: Mistaken, own_postgres_url: str
) -> None:
    verdict = proof(shop(SHOP, own_postgres_url), *planted.events)

    assert verdict.finding is not None
    assert verdict.finding.mistake.name == planted.name
    assert [part for part in planted.story if part not in verdict.finding.story] == []


@pytest.mark.parametrize("right", some(RIGHT, "payment"), ids=lambda one: one[0])
def test_a_handler_that_is_right_passes(right: tuple[str, ...], own_postgres_url: str) -> None:
    verdict = proof(shop(SHOP, own_postgres_url), *right)

    assert verdict.finding is None
    assert verdict.tried["kill"] >= 3


def with_account(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE accounts (id integer PRIMARY KEY, balance integer)")
        connection.execute("INSERT INTO accounts VALUES (7, 41)")


def accounts(url: str) -> list[tuple[int, int]]:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT id, balance FROM accounts").fetchall()


def test_what_is_kept_of_a_failed_case_takes_the_place_of_nothing(own_postgres_url: str) -> None:
    known = RestorablePostgres(own_postgres_url, names(), disposable=True)
    known.put_back()
    try:
        assert known.save_copy(Path()) == f"the database {known.name}_failed"
        assert known.save_copy(Path()) == f"the database {known.name}_failed_2"
    finally:
        known.restore_original()


def test_a_table_that_only_begins_like_those_of_duly_is_compared(own_postgres_url: str) -> None:
    with psycopg.connect(own_postgres_url) as connection:
        connection.execute("CREATE TABLE duly_points (n integer)")
    known = RestorablePostgres(own_postgres_url, names(), disposable=True)
    known.put_back()
    try:
        assert [table.name for table, _ in known.contents(None)] == ["duly_points"]
    finally:
        known.restore_original()


def test_the_database_is_put_back_as_it_was(own_postgres_url: str) -> None:
    with_account(own_postgres_url)

    proof(shop(SHOP, own_postgres_url), "points", only="twice")

    assert accounts(own_postgres_url) == [(7, 41)]
    with psycopg.connect(own_postgres_url) as connection:
        assert connection.execute("SELECT count(*) FROM duly_events").fetchone() == (0,)


def test_after_a_proof_that_was_killed_a_person_decides_which_state_is_kept(
    own_postgres_url: str,
) -> None:
    with_account(own_postgres_url)
    killed = RestorablePostgres(own_postgres_url, names(), disposable=True)
    killed.put_back()
    killed._turn.close()  # as its death would

    with pytest.raises(duly.errors.UsageError, match="ended in the middle"):
        RestorablePostgres(own_postgres_url, names(), disposable=True)

    killed.restore_original()
    assert accounts(own_postgres_url) == [(7, 41)]


def test_one_proof_of_a_database_at_a_time(own_postgres_url: str) -> None:
    with_account(own_postgres_url)
    first = RestorablePostgres(own_postgres_url, names(), disposable=True)
    with pytest.raises(duly.errors.UsageError, match="another proof"):
        RestorablePostgres(own_postgres_url, names(), disposable=True)
    first.restore_original()
    assert accounts(own_postgres_url) == [(7, 41)]


def test_ctrl_c_again_and_again_puts_the_database_back(
    own_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_account(own_postgres_url)
    monkeypatch.setenv("SHOP_DATABASE", own_postgres_url)
    words = [sys.executable, "-m", "duly", "prove", f"{SHOP}:app", "--database-is-disposable"]
    words += ["--event", str(EVENTS / "points.json")]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        while "a single run" not in running.stderr.readline():
            assert running.poll() is None
        while running.poll() is None:
            running.send_signal(signal.SIGINT)
            time.sleep(0.01)

    assert running.returncode in (130, -signal.SIGINT)
    assert accounts(own_postgres_url) == [(7, 41)]
    RestorablePostgres(
        own_postgres_url, names(), disposable=True
    ).restore_original()  # nothing stands aside


def test_long_names_that_begin_alike_do_not_meet_aside() -> None:
    names = {aside_name("test_" + "a" * 50 + ending) for ending in ("_eu", "_us")}
    assert len(names) == 2
    assert {len(name) <= 63 for name in names} == {True}


def test_a_database_that_is_not_called_one_for_tests_is_left_alone(own_postgres_url: str) -> None:
    with_account(own_postgres_url)

    with pytest.raises(duly.errors.UsageError, match="--database-is-disposable"):
        RestorablePostgres(own_postgres_url, names(), disposable=False)

    assert accounts(own_postgres_url) == [(7, 41)]


def test_a_database_that_others_use_is_left_alone(own_postgres_url: str) -> None:
    with_account(own_postgres_url)

    with (
        psycopg.connect(own_postgres_url),
        pytest.raises(duly.errors.UsageError, match="close your own"),
    ):
        RestorablePostgres(own_postgres_url, names(), disposable=True)

    assert accounts(own_postgres_url) == [(7, 41)]


def test_columns_that_the_server_fills_in_and_keys_are_known(own_postgres_url: str) -> None:
    with psycopg.connect(own_postgres_url) as connection:
        connection.execute("CREATE SCHEMA side")
        connection.execute(
            "CREATE TABLE side.things (b int, a int, at timestamptz DEFAULT now(), n serial,"
            " u uuid DEFAULT gen_random_uuid(), i int GENERATED ALWAYS AS IDENTITY,"
            " PRIMARY KEY (a, b))"
        )
        connection.execute("INSERT INTO side.things (a, b) VALUES (1, 2)")
    base = RestorablePostgres(own_postgres_url, names(), disposable=True)
    base.put_back()

    [(table, rows)] = base.contents(("things",))
    base.restore_original()

    assert (table.name, table.key) == ("side.things", ("a", "b"))
    assert table.generated_columns == {"n", "u", "i"}
    assert [(row["a"], row["b"]) for row in rows] == [(1, 2)]


def test_a_gap_in_a_sequence_after_a_rollback_is_no_difference(own_postgres_url: str) -> None:
    with psycopg.connect(own_postgres_url) as connection:
        connection.execute("CREATE TABLE orders (id bigserial PRIMARY KEY)")
        connection.execute("CREATE TABLE lines (order_id bigint REFERENCES orders, text text)")
    app = duly.Duly(own_postgres_url)

    @app.job(name="order")
    def order(tx: duly.Tx) -> None:
        [made] = tx.execute("INSERT INTO orders DEFAULT VALUES RETURNING id")
        tx.execute("INSERT INTO lines VALUES (:order, 'cup')", order=made["id"])

    # Killed after the first of them: it is rolled back, and its number is not given out again.
    assert_effectively_once(app, job="order", disposable=True, only="kill:3")


def test_a_job_for_later_that_is_enqueued_twice_is_found(own_postgres_url: str) -> None:
    app = duly.Duly(own_postgres_url)
    app.job(name="remind")(by_psycopg)

    @app.job(name="order")
    def order() -> None:
        app.enqueue("remind", {"order": "o-1"}, delay=timedelta(days=1))

    with pytest.raises(AssertionError, match="of the jobs that wait"):
        assert_effectively_once(app, job="order", disposable=True, only="kill:3")


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_another_database_of_the_same_server_is_refused(
    driver: str, own_postgres_url: str, postgres_server: str
) -> None:
    app = duly.Duly(own_postgres_url)
    app.job(name="elsewhere")(by_psycopg if driver == "psycopg" else by_asyncpg)
    os.environ["ELSEWHERE"] = postgres_server

    with pytest.raises(duly.errors.UsageError, match="cannot be put back"):
        assert_effectively_once(app, job="elsewhere", disposable=True)


@pytest.mark.parametrize("only", ["reordered", "kill:4"])
def test_another_database_that_the_first_run_does_not_use_is_refused_before_it_is_written_to(
    only: str, own_postgres_url: str, postgres_server: str
) -> None:
    """One that only a later event uses, or only a repeat; and whoever looks away helps nobody."""
    with psycopg.connect(own_postgres_url) as connection:
        connection.execute("CREATE TABLE orders (id text PRIMARY KEY)")
    app = duly.Duly(own_postgres_url)
    app.source("shop", provider="standard-webhooks", secret="whsec_" + "A" * 32)

    def elsewhere() -> None:
        for _ in range(2):
            with suppress(duly.errors.UsageError), psycopg.connect(postgres_server) as connection:
                connection.execute("CREATE TABLE written_for_real (n integer)")

    @app.on("shop", "a", name="first")
    def first(event: duly.Event) -> None:
        try:
            with psycopg.connect(own_postgres_url) as connection:
                connection.execute("INSERT INTO orders VALUES (%s)", [event.id])
        except psycopg.errors.UniqueViolation:
            elsewhere()

    app.on("shop", "b", name="later")(elsewhere)
    events = [{"type": "a"}, {"type": "b"}][: 2 if only == "reordered" else 1]

    with pytest.raises(duly.errors.UsageError, match="cannot be put back"):
        assert_effectively_once(app, events, disposable=True, only=only)

    with psycopg.connect(postgres_server) as connection:
        found = connection.execute("SELECT to_regclass('written_for_real')").fetchone()
    assert found == (None,)


@pytest.fixture
def another_server() -> Iterator[str]:
    server = find(origins(os.environ))
    assert isinstance(server, Postgres)
    with running(server) as started:
        yield url_at(started.place)


def test_a_database_of_the_same_name_in_another_server_is_refused(
    own_postgres_url: str, another_server: str
) -> None:
    name = database_of(own_postgres_url)
    with psycopg.connect(another_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    app = duly.Duly(own_postgres_url)
    app.job(name="elsewhere")(by_psycopg)
    os.environ["ELSEWHERE"] = on_database(another_server, name)

    with pytest.raises(duly.errors.UsageError, match="cannot be put back"):
        assert_effectively_once(app, job="elsewhere", disposable=True)


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_the_same_database_by_another_address_is_duly_s_own(
    driver: str, own_postgres_url: str
) -> None:
    with psycopg.connect(own_postgres_url) as connection:
        connection.execute("CREATE TABLE orders (id integer PRIMARY KEY)")
    app = duly.Duly(own_postgres_url)
    app.job(name="own")(own_by_psycopg if driver == "psycopg" else own_by_asyncpg)
    os.environ["ELSEWHERE"] = make_conninfo(own_postgres_url, host="localhost")

    assert_effectively_once(app, job="own", disposable=True, only="twice")


def own_by_psycopg() -> None:
    with psycopg.connect(os.environ["ELSEWHERE"]) as connection:
        connection.execute("INSERT INTO orders VALUES (1)")


async def own_by_asyncpg() -> None:
    told = conninfo_to_dict(os.environ["ELSEWHERE"])
    connection = await asyncpg.connect(
        host=told["host"], port=told["port"], user=told["user"], database=told["dbname"]
    )
    await connection.execute("INSERT INTO orders VALUES (1)")
    await connection.close()


def by_psycopg() -> None:
    with psycopg.connect(os.environ["ELSEWHERE"]) as connection:
        connection.execute("SELECT 1")


async def by_asyncpg() -> None:
    connection = await asyncpg.connect(os.environ["ELSEWHERE"])
    await connection.execute("SELECT 1")
