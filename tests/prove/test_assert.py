"""`assert_effectively_once`: the same proof in a test, of an application that is made there."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from sqlite3 import connect as taken
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import duly
from duly.prove.asks import EventAsk
from duly.prove.assertion import assert_effectively_once
from duly.prove.case_runner import ProofRequest
from duly.prove.loader import Subject
from duly.prove.proof import Verdict
from duly.prove.prover import ProofOptions, prove_handler
from duly.prove.report import verdict_document, verdict_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from duly.jobs.tx import AsyncTx

pytestmark = pytest.mark.slow

SECRET = "whsec_" + "A" * 32
EVENT = {"type": "order.paid", "data": {"order": "o-1"}}


def shop(path: Path, handler: Callable[..., Any]) -> duly.Duly:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE orders (id TEXT, note TEXT)")
        connection.execute("CREATE TABLE log (line TEXT)")
        connection.execute("INSERT INTO log VALUES ('new')")
    app = duly.Duly(f"sqlite:///{path}")
    app.source("shop", provider="standard-webhooks", secret=SECRET)
    app.on("shop", "order.*", name="handler")(handler)
    app.job(name="ship", attempts=3)(handler)
    return app


def failure(app: duly.Duly, *event: Any, **options: Any) -> str:
    """What a proof that must fail says, on one line."""
    with pytest.raises(AssertionError) as failed:
        assert_effectively_once(app, *event, **options)
    return " ".join(str(failed.value).split())


def right(tx: duly.Tx) -> None:
    tx.execute("INSERT INTO orders (id) VALUES ('o-1')")


@pytest.fixture
def wrong(tmp_path: Path) -> Callable[[], None]:
    def handler() -> None:
        with closing(sqlite3.connect(tmp_path / "shop.db", timeout=10)) as own, own:
            own.execute("INSERT INTO orders (id) VALUES ('o-1')")

    return handler


def test_a_handler_whose_steps_differ_by_chance_is_refused_and_not_blamed(tmp_path: Path) -> None:
    def handler(tx: duly.Tx) -> None:
        tx.execute(f"INSERT INTO orders (id) VALUES ('{uuid.uuid4().hex}')")

    app = shop(tmp_path / "shop.db", handler)
    with pytest.raises(duly.errors.UsageError, match="two single runs took different steps"):
        assert_effectively_once(app, EVENT)
    app.close()


def test_chance_that_two_single_runs_did_not_show_is_refused_and_not_blamed(
    tmp_path: Path,
) -> None:
    runs = tmp_path / "runs"
    runs.touch()

    def handler(tx: duly.Tx) -> None:
        with runs.open("a") as file:
            file.write("x")
        # The first three are single runs, then comes a case, and the others doubt its verdict.
        if len(runs.read_text()) in (4, 7):
            tx.execute("INSERT INTO orders (id) VALUES ('o-2')")
        tx.execute("INSERT INTO orders (id) VALUES ('o-1')")

    app = shop(tmp_path / "shop.db", handler)
    with pytest.raises(duly.errors.UsageError, match="two single runs took different steps"):
        assert_effectively_once(app, EVENT)
    app.close()


def test_a_write_in_the_transaction_is_not_told_to_be_outside_of_it(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.touch()

    def handler(tx: duly.Tx) -> None:
        with runs.open("a") as file:
            file.write("x")
        again = len(runs.read_text()) == 4
        tx.execute("INSERT INTO orders (id) VALUES (:id)", id="o-2" if again else "o-1")

    app = shop(tmp_path / "shop.db", handler)
    with pytest.raises(AssertionError, match=r"(?s)a repeat ends differently.*is in the trans"):
        assert_effectively_once(app, EVENT)
    app.close()


def test_a_handler_that_only_stages_a_message_has_statements(tmp_path: Path) -> None:
    def handler(tx: duly.Tx) -> None:
        tx.send("https://shop.example/paid", json={"order": "o-1"})

    app = shop(tmp_path / "shop.db", handler)
    wishes = ProofRequest((EventAsk("shop", json.dumps(EVENT).encode()),), only="twice")
    verdict = prove_handler(lambda: Subject(app, None), wishes, ProofOptions(), lambda _: None)
    app.close()
    assert verdict.finding is None
    assert not [note for note in verdict.notes if "no statement" in note]


def test_one_case_alone_is_not_called_a_proof() -> None:
    one, whole = Verdict(only="twice"), Verdict()
    assert "twice ended as the single run did; the other cases" in verdict_text(one, "")
    assert "Effectively once" not in verdict_text(one, "")
    assert verdict_document(one, "")["only"] == "twice"
    assert "Effectively once" in verdict_text(whole, "")


def test_what_a_failed_attempt_leaves_in_memory_is_found(tmp_path: Path) -> None:
    seen: set[str] = set()

    def handler(tx: duly.Tx) -> None:
        if "o-1" not in seen:  # not rolled back, and so believed by the next attempt
            seen.add("o-1")
            tx.execute("INSERT INTO orders (id) VALUES ('o-1')")

    app = shop(tmp_path / "shop.db", handler)
    told = failure(app, EVENT)
    assert "state in the process" in told
    assert "failed at its end, and tried again by the same process: orders has the row" in told
    assert "not at all instead of once" in told
    app.close()


def test_what_a_failed_attempt_leaves_in_memory_is_found_inline_as_well(tmp_path: Path) -> None:
    seen: set[str] = set()

    async def handler(event: duly.Event, tx: AsyncTx) -> None:
        if event.id not in seen:
            seen.add(event.id)
            await tx.execute("INSERT INTO orders (id) VALUES ('o-1')")

    app = shop(tmp_path / "shop.db", lambda: None)
    app.source("till", provider="standard-webhooks", secret=SECRET, inline=True)
    app.on("till", "order.*", name="served")(handler)
    assert "state in the process" in failure(app, EVENT, source="till")
    app.close()


def test_a_job_that_may_not_be_tried_again_is_not_let_fail(tmp_path: Path) -> None:
    app = shop(tmp_path / "shop.db", right)
    app.job(name="once")(right)
    assert_effectively_once(app, job="once")
    app.close()


def test_a_bulk_handler_is_proved_with_the_event_that_leads_to_its_jobs(tmp_path: Path) -> None:
    def sell(jobs: list[duly.Job], tx: duly.Tx) -> None:
        for job in jobs:
            tx.execute("INSERT INTO orders (id) VALUES (:id)", id=job.payload)

    def paid(tx: duly.Tx) -> None:
        tx.enqueue_many("sell", ["o-1", "o-2"])

    app = shop(tmp_path / "shop.db", paid)
    app.job(name="sell", many=10, attempts=3)(sell)
    assert_effectively_once(app, EVENT)
    app.close()


def test_a_handler_that_is_right_passes_and_leaves_nothing_behind(tmp_path: Path) -> None:
    app = shop(tmp_path / "shop.db", right)

    assert_effectively_once(app, EVENT)

    with app.transaction() as tx:
        assert tx.execute("SELECT count(*) AS n FROM orders") == [{"n": 0}]
    app.close()
    left = {path.name for path in tmp_path.iterdir()}
    assert left <= {"shop.db", "shop.db-wal", "shop.db-shm"}


def test_a_mistake_fails_the_test_with_its_story(tmp_path: Path, wrong: Callable[[], None]) -> None:
    app = shop(tmp_path / "shop.db", wrong)

    told = failure(app, b'{"type": "order.paid"}', source="shop")

    assert "not safe to repeat: blind insert" in told
    assert "killed after INSERT INTO orders (id) VALUES ('o-1')" in told
    assert "insert it through `tx`" in told
    assert "only='kill:" in told


def test_only_the_tables_that_are_named_are_compared(
    tmp_path: Path, wrong: Callable[[], None]
) -> None:
    def noting() -> None:
        wrong()
        with closing(sqlite3.connect(tmp_path / "shop.db", timeout=10)) as own, own:
            own.execute("UPDATE log SET line = 'seen'")

    app = shop(tmp_path / "shop.db", noting)

    assert_effectively_once(app, EVENT, effects=["log"], only="kill:4")
    told = failure(app, EVENT, effects=["orders"], only="kill:4")
    assert "orders has the row (id='o-1', note=None) 2 times instead of once" in told


def test_a_function_of_the_database_can_say_what_counts(
    tmp_path: Path, wrong: Callable[[], None]
) -> None:
    app = shop(tmp_path / "shop.db", wrong)

    def there(connection: sqlite3.Connection) -> bool:
        [count] = connection.execute("SELECT count(*) FROM orders").fetchone()
        return bool(count)

    def how_many(connection: sqlite3.Connection) -> int:
        return int(connection.execute("SELECT count(*) FROM orders").fetchone()[0])

    assert_effectively_once(app, EVENT, effects=there, only="kill:4")
    told = failure(app, EVENT, effects=how_many, only="kill:4")
    assert "effects= is 2 instead of 1. The row is inserted outside the transaction" in told


def test_a_job_is_proved_by_its_name(tmp_path: Path, wrong: Callable[[], None]) -> None:
    app = shop(tmp_path / "shop.db", wrong)

    told = failure(app, job="ship", payload={"order": "o-1"}, only="kill:4")
    assert "killed after INSERT INTO orders" in told


def test_a_store_in_memory_can_be_proved_where_it_lives(tmp_path: Path) -> None:
    app = duly.Duly("memory:")
    app.source("shop", provider="standard-webhooks", secret=SECRET, inline=True)

    @app.on("shop", name="count")
    def count(tx: duly.Tx) -> None:
        tx.execute("UPDATE counter SET n = n + 1")

    with app.transaction() as tx:
        tx.execute("CREATE TABLE counter (n INTEGER)")
        tx.execute("INSERT INTO counter VALUES (0)")

    assert_effectively_once(app, EVENT)

    with app.transaction() as tx:
        assert tx.execute("SELECT n FROM counter") == [{"n": 0}]
    app.close()


def test_a_repeat_that_fails_for_ever_on_its_own_row_is_found(tmp_path: Path) -> None:
    def handler() -> None:
        with closing(sqlite3.connect(tmp_path / "shop.db", timeout=10)) as own, own:
            own.execute("INSERT INTO once (id) VALUES ('o-1')")

    app = shop(tmp_path / "shop.db", handler)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE once (id TEXT PRIMARY KEY)")

    told = failure(app, EVENT, only="kill:4")

    assert "blind insert" in told
    assert "the job handler is dead: sqlite3.IntegrityError: UNIQUE constraint failed" in told
    assert "The row of the first run is there already" in told


def test_a_key_that_is_made_anew_for_each_attempt_is_found(tmp_path: Path) -> None:
    def handler() -> None:
        key = {"Idempotency-Key": str(uuid.uuid4())}
        httpx.post("https://bank.example/charges", json={"n": 1}, headers=key)

    told = failure(shop(tmp_path / "shop.db", handler), EVENT, only="kill:3")

    assert "idempotency key made anew" in told
    assert "POST https://bank.example/charges was made 2 times instead of once" in told
    assert "use job.key(…), which is the same in every attempt" in told


async def test_it_can_be_asked_inside_an_event_loop(tmp_path: Path) -> None:
    app = shop(tmp_path / "shop.db", right)
    await app.aio.enqueue("ship")

    assert_effectively_once(app, EVENT, only="twice")

    await app.aclose()


def test_a_document_that_grows_with_each_repeat_is_found_although_it_holds_the_time(
    tmp_path: Path,
) -> None:
    def handler() -> None:
        with closing(sqlite3.connect(tmp_path / "shop.db", timeout=10)) as own, own:
            [line] = own.execute("SELECT line FROM log").fetchone()
            known = [] if line == "new" else json.loads(line)
            own.execute("UPDATE log SET line = ?", [json.dumps([*known, {"at": time.time()}])])

    told = failure(shop(tmp_path / "shop.db", handler), EVENT, only="kill:5")

    assert "log.line" in told


def refusal(app: duly.Duly) -> str:
    """Why a proof cannot be made."""
    with pytest.raises(duly.errors.UsageError) as refused:
        assert_effectively_once(app, EVENT)
    return str(refused.value)


def test_a_program_is_not_started(tmp_path: Path) -> None:
    def handler() -> None:
        subprocess.run(["touch", tmp_path / "really"], check=True)

    assert "may not start touch" in refusal(shop(tmp_path / "shop.db", handler))
    assert not (tmp_path / "really").exists()


def test_a_connection_that_nobody_can_watch_is_refused(tmp_path: Path) -> None:
    def handler() -> None:
        with closing(taken(tmp_path / "other.db")) as own, own:
            own.execute("CREATE TABLE rows (n)")

    assert "the proof cannot see this connection" in refusal(shop(tmp_path / "shop.db", handler))
    assert not (tmp_path / "other.db").exists() or (tmp_path / "other.db").stat().st_size == 0


def test_a_run_that_leaves_nothing_to_compare_is_refused(tmp_path: Path) -> None:
    def handler() -> None:
        """Nothing."""

    assert "nothing to compare" in refusal(shop(tmp_path / "shop.db", handler))


def test_a_connection_that_is_open_is_refused_whatever_file_it_is_to(tmp_path: Path) -> None:
    audit = sqlite3.connect(tmp_path / "audit.db", check_same_thread=False, isolation_level=None)
    audit.execute("CREATE TABLE log (line TEXT)")

    def handler(tx: duly.Tx) -> None:
        right(tx)
        audit.execute("INSERT INTO log VALUES ('blind')")

    app = shop(tmp_path / "shop.db", handler)
    with closing(audit):
        told = refusal(app)
        assert audit.execute("SELECT * FROM log").fetchall() == []
        with pytest.raises(duly.errors.UsageError, match="close it before the proof"):
            assert_effectively_once("by_its_name:app", EVENT)

    assert f"a connection to {tmp_path / 'audit.db'} is open in this process" in told


def test_a_connection_of_another_thread_is_refused_as_well(tmp_path: Path) -> None:
    app = shop(tmp_path / "shop.db", right)
    with ThreadPoolExecutor(1) as thread:
        connection = thread.submit(sqlite3.connect, tmp_path / "audit.db").result()
        told = refusal(app)
        thread.submit(connection.close).result()

    assert "in another thread is open in this process: close it before the proof" in told


def test_a_connection_to_memory_harms_nobody(tmp_path: Path) -> None:
    app = shop(tmp_path / "shop.db", right)
    with closing(sqlite3.connect(":memory:")):
        assert_effectively_once(app, EVENT, only="twice")


def failing(tx: duly.Tx) -> None:
    raise ValueError("the order is unknown")


def test_an_event_of_two_sources_is_refused_with_the_argument_that_decides(tmp_path: Path) -> None:
    app = shop(tmp_path / "shop.db", right)
    app.source("other", provider="standard-webhooks", secret=SECRET)
    app.on("other", "*", name="other")(right)
    with pytest.raises(duly.errors.UsageError, match="name its source with --source"):
        assert_effectively_once(app, EVENT)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"event": EVENT}, "in the single run the job handler failed: ValueError: the order is"),
        ({"event": {"type": "other"}, "source": "shop"}, "take this event: no handler for other"),
        ({"event": EVENT, "source": "nobody"}, "there is no source 'nobody'"),
        (
            {"event": {"type": "other"}},
            "no source could have sent this event (shop: no handler for other)",
        ),
        ({"event": b"{"}, "its type cannot be told: its body is not JSON"),
        ({"job": "nobody"}, "is no job"),
        ({}, "Give an event, or job="),
        ({"event": []}, "empty"),
        ({"event": 7}, "not an int"),
        ({"event": EVENT, "effects": "orders"}, "effects must be a list"),
        ({"event": EVENT, "answers": {"https://x": 1}}, "an answer has status"),
        ({"event": EVENT, "path": "/x"}, "give both"),
    ],
)
def test_what_cannot_be_proved_says_why(asked: dict[str, Any], told: str, tmp_path: Path) -> None:
    app = shop(tmp_path / "shop.db", failing)

    with pytest.raises(duly.errors.UsageError) as refused:
        assert_effectively_once(app, **asked)

    assert told in str(refused.value)
