"""What a proof compares: nothing of it is left out unsaid, and nothing that is right is blamed."""

from __future__ import annotations

import importlib
import json
import sqlite3
import sys
import textwrap
import uuid
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import duly
from duly.prove.asks import EventAsk
from duly.prove.assertion import assert_effectively_once
from duly.prove.case_runner import ProofRequest
from duly.prove.loader import Subject
from duly.prove.prover import ProofOptions, prove_handler

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow

EVENT = {"type": "order.paid", "data": {"n": 1}}
LATER = {"type": "order.sent", "data": {"n": 2}}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


def run(path: Path, script: str) -> None:
    """Statements, each committed, on a connection of its own: as a handler should not write."""
    with closing(sqlite3.connect(path, timeout=10, isolation_level=None)) as own:
        for statement in filter(None, map(str.strip, script.split(";"))):
            own.execute(statement)


def shop(path: Path, tables: str, handler: Callable[..., Any]) -> duly.Duly:
    run(path, tables)
    app = duly.Duly(f"sqlite:///{path}")
    app.source("shop", provider="standard-webhooks", secret="whsec_" + "A" * 32)
    app.on("shop", "order.*", name="handler")(handler)
    return app


def failure(app: duly.Duly, *events: Any, **options: Any) -> str:
    """What a proof that must fail says, on one line."""
    with pytest.raises(AssertionError) as failed:
        assert_effectively_once(app, list(events), **options)
    return " ".join(str(failed.value).split())


def test_tables_of_the_same_name_in_two_files_are_both_compared(database: Path) -> None:
    other = database.with_name("other.db")
    run(other, "CREATE TABLE orders (id TEXT)")

    def handler() -> None:
        run(database, "INSERT INTO orders VALUES ('o-1')")
        run(other, "DELETE FROM orders; INSERT INTO orders VALUES ('o-1')")

    app = shop(database, "CREATE TABLE orders (id TEXT)", handler)
    told = failure(app, EVENT, only="kill:3")
    assert "orders has the row (id='o-1') 2 times instead of once" in told


def test_the_story_says_in_which_other_file_the_table_is(database: Path) -> None:
    other = database.with_name("other.db")
    run(other, "CREATE TABLE orders (id TEXT)")

    def handler() -> None:
        run(other, "INSERT INTO orders VALUES ('o-1')")

    app = shop(database, "CREATE TABLE orders (id TEXT)", handler)
    told = failure(app, EVENT, only="kill:3")
    assert "orders in other.db has the row (id='o-1') 2 times instead of once" in told


def test_a_table_that_only_begins_like_those_of_duly_is_compared(database: Path) -> None:
    def handler() -> None:
        run(database, "UPDATE duly_points SET n = n + 1")

    tables = "CREATE TABLE duly_points (n INTEGER); INSERT INTO duly_points VALUES (0)"
    told = failure(shop(database, tables, handler), EVENT, only="kill:3")
    assert "duly_points has the row" in told or "duly_points.n" in told


def test_rows_whose_key_is_null_are_counted_one_by_one(database: Path) -> None:
    def handler() -> None:
        run(database, "INSERT INTO orders VALUES (NULL, 'new')")

    tables = """CREATE TABLE orders (id TEXT PRIMARY KEY, note TEXT);
                INSERT INTO orders VALUES (NULL, 'old')"""
    told = failure(shop(database, tables, handler), EVENT, only="kill:3")
    assert "orders has the row (id=None, note='new') 2 times instead of once" in told


def test_a_run_that_only_reads_from_others_leaves_nothing_to_compare(database: Path) -> None:
    def handler() -> None:
        httpx.get("https://shop.example/orders/1")

    with pytest.raises(duly.errors.UsageError, match="there is nothing to compare"):
        assert_effectively_once(shop(database, "", handler), EVENT)


def test_a_function_that_forgets_to_return_what_counts_is_refused(database: Path) -> None:
    def handler() -> None:
        run(database, "INSERT INTO orders VALUES ('o-1')")

    def effects(connection: sqlite3.Connection) -> None:
        connection.execute("SELECT * FROM orders").fetchall()

    app = shop(database, "CREATE TABLE orders (id TEXT)", handler)
    with pytest.raises(duly.errors.UsageError, match="effects= returned None"):
        assert_effectively_once(app, EVENT, effects=effects)


def test_a_time_that_the_event_says_is_compared_although_it_is_about_now(database: Path) -> None:
    def handler(event: duly.Event, tx: duly.Tx) -> None:
        tx.execute("UPDATE accounts SET paid_at = :at", at=event.json["at"])

    tables = "CREATE TABLE accounts (paid_at TEXT); INSERT INTO accounts VALUES (NULL)"
    now = datetime.now(UTC)
    first, second = ({**EVENT, "at": f"{now + timedelta(minutes=n):%F %T}"} for n in (0, 1))
    told = failure(shop(database, tables, handler), first, second, only="reordered")
    assert f"accounts.paid_at is {first['at']!r} instead of {second['at']!r}" in told


def test_a_clock_that_ticks_after_the_single_runs_is_no_mistake(database: Path) -> None:
    def handler(tx: duly.Tx) -> None:
        with database.with_name("runs").open("a") as runs:
            runs.write("x")
            tick = runs.tell() // 4  # the first tick comes after the two single runs
        tx.execute("INSERT INTO orders VALUES ('o-1', :tick)", tick=tick)

    app = shop(database, "CREATE TABLE orders (id TEXT, expires_at INTEGER)", handler)
    wishes = ProofRequest((EventAsk("shop", json.dumps(EVENT).encode()),), only="twice")
    verdict = prove_handler(lambda: Subject(app), wishes, ProofOptions(), lambda _: None)
    assert verdict.finding is None
    assert verdict.hidden == ["orders.expires_at"]


def test_a_job_for_later_that_is_enqueued_twice_is_found(database: Path) -> None:
    def handler() -> None:
        app.enqueue("remind", {"order": "o-1"}, delay=timedelta(days=1))

    app = shop(database, "", handler)
    app.job(name="remind")(handler)
    told = failure(app, EVENT, only="kill:2")
    assert "enqueue outside the transaction killed after a job was enqueued" in told
    assert "of the jobs that wait, (name='remind', payload='{\"order\":\"o-1\"}'" in told
    assert "is there 2 times instead of once" in told


def test_a_message_for_later_that_is_staged_twice_is_found(database: Path) -> None:
    def handler() -> None:
        app.send("https://shop.example/remind", json={"n": 1}, delay=timedelta(days=1))

    app = shop(database, "", handler)
    told = failure(app, EVENT, only="kill:2")
    assert "killed after a message was staged: of the messages that wait" in told


def test_what_is_enqueued_for_later_in_the_transaction_is_there_once(database: Path) -> None:
    def handler(tx: duly.Tx) -> None:
        tx.enqueue("remind", {"order": "o-1"}, delay=timedelta(days=1))

    app = shop(database, "", handler)
    app.job(name="remind")(handler)
    assert_effectively_once(app, EVENT)


def put(event: duly.Event) -> None:
    httpx.put("https://crm.example/orders/7", json=event.json["data"])


def test_an_older_state_that_is_put_over_a_later_one_is_found(database: Path) -> None:
    told = failure(shop(database, "", put), EVENT, LATER, only="reordered")
    assert "order-dependent write" in told
    assert """PUT https://crm.example/orders/7 with '{"n":1}' came last instead of""" in told


def test_a_state_that_is_put_in_order_is_right(database: Path) -> None:
    app = duly.Duly(f"sqlite:///{database}")
    app.source("shop", provider="standard-webhooks", secret="whsec_" + "A" * 32)
    app.on("shop", "order.*", order=("type", "data.n"), name="handler")(put)
    same = [{"type": "order.paid", "data": {"n": n}} for n in (1, 2)]
    assert_effectively_once(app, same, only="reordered")


@pytest.mark.parametrize(
    "number",
    ["id INTEGER PRIMARY KEY, name TEXT", "id INTEGER NOT NULL, name TEXT, PRIMARY KEY (id)"],
)
def test_what_refers_to_numbers_of_rows_is_not_compared(database: Path, number: str) -> None:
    def handler(event: duly.Event, tx: duly.Tx) -> None:
        [row] = tx.execute("INSERT INTO orders (name) VALUES (:name) RETURNING id", name=event.type)
        tx.execute("INSERT INTO lines VALUES (:id, :name)", id=row["id"], name=event.type)

    tables = f"CREATE TABLE orders ({number}); CREATE TABLE lines (order_id INTEGER, name TEXT)"
    assert_effectively_once(shop(database, tables, handler), [EVENT, LATER], only="reordered")


def test_a_column_that_is_generated_from_one_that_is_not_compared_is_not_either(
    database: Path,
) -> None:
    def handler(tx: duly.Tx) -> None:
        tx.execute("INSERT INTO orders (token) VALUES (:token)", token=uuid.uuid4().hex)

    tables = "CREATE TABLE orders (token TEXT, short TEXT AS (substr(token, 1, 8)))"
    assert_effectively_once(shop(database, tables, handler), EVENT, only="twice")


@pytest.mark.parametrize("place", ["body", "query", "header"])
def test_a_key_of_the_job_is_known_wherever_in_the_call_it_stands(
    database: Path, place: str
) -> None:
    def handler(job: duly.Job) -> None:
        given = {place: job.key("pay")}
        httpx.post(
            "https://bank.example/charges",
            json={"reference": given.get("body")},
            params={"reference": given.get("query", "")},
            headers={"Bank-Request": given.get("header", "")},
        )

    assert_effectively_once(shop(database, "", handler), EVENT, only="kill:3")


SITE = """
    import sqlite3
    import duly

    app = duly.Duly("sqlite:///shop.db")
    app.source("shop", provider="standard-webhooks", secret="whsec_" + "A" * 32)


    @app.on("shop", "order.*")
    def count(tx):
        tx.execute("UPDATE counter SET orders = orders + 1")


    def site(environ, start_response):
        own = sqlite3.connect("shop.db", isolation_level=None)
        own.execute("UPDATE counter SET visits = visits + 1")
        own.close()
        return app.wsgi(environ, start_response)
"""


@pytest.mark.parametrize("named", [True, False])
def test_an_application_by_its_name_is_proved_through_its_site(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_with_site.py").write_text(textwrap.dedent(SITE))
    run(
        tmp_path / "shop.db",
        "CREATE TABLE counter (orders, visits); INSERT INTO counter VALUES (0, 0)",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shop_with_site", raising=False)
    site = "shop_with_site:site" if named else importlib.import_module("shop_with_site").site

    with pytest.raises(AssertionError, match="side effect before the claim"):
        assert_effectively_once(
            "shop_with_site:app", EVENT, through=site, path="/shop", only="twice"
        )
