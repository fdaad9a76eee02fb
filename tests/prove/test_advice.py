"""What a story advises can be followed where the mistake was made."""

from __future__ import annotations

import json
import smtplib
import sqlite3
import threading
import time
import uuid
from contextlib import closing
from email.message import EmailMessage
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy import event as sqlalchemy_event
from sqlalchemy.orm import sessionmaker
from starlette.applications import Starlette
from starlette.routing import Route

import duly
from duly import fastapi
from duly.prove.asks import EventAsk
from duly.prove.assertion import assert_effectively_once
from duly.prove.case_runner import ProofRequest
from duly.prove.loader import Subject
from duly.prove.prover import ProofOptions, prove_handler
from tests.prove.test_assert import EVENT, SECRET, failure, shop

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from starlette.requests import Request

pytestmark = [pytest.mark.slow, pytest.mark.wide]

BANK = "https://bank.example/charges"
BY_MAIL = 'tx.send("mail:…")'


def mail() -> None:
    letter = EmailMessage()
    letter["From"], letter["To"] = "shop@shop.example", "ada@example.com"
    letter.set_content("Hooray!")
    with smtplib.SMTP("mail.shop.example") as server:
        server.send_message(letter)


def call() -> None:
    httpx.post(BANK, json={"amount": 20})


def call_with_new_key() -> None:
    httpx.post(BANK, json={"amount": 20}, headers={"Idempotency-Key": uuid.uuid4().hex})


def test_a_mail_is_not_told_to_carry_a_key(tmp_path: Path) -> None:
    told = failure(shop(tmp_path / "shop.db", mail), EVENT, only="kill:3")

    assert "e-mail outside the outbox" in told
    assert BY_MAIL in told
    assert '@app.transport("mail")' in told
    assert "job.http" not in told
    assert "Idempotency-Key" not in told


def test_a_call_in_an_effect_is_told_to_carry_the_key_that_it_was_handed(tmp_path: Path) -> None:
    def handler(job: duly.Job) -> None:
        job.effect("charge", lambda key: call())  # noqa: ARG005  # that is the mistake

    told = failure(shop(tmp_path / "shop.db", handler), EVENT)

    assert "was made 2 times instead of once" in told
    assert 'headers={"Idempotency-Key": key}' in told
    assert "let the handler ask for job" not in told


@pytest.mark.parametrize(
    ("handler", "remedy"),
    [(call, "tx.send(…)"), (call_with_new_key, "make it from event.id"), (mail, "the claim")],
)
def test_an_inline_handler_is_not_told_to_ask_for_job(
    handler: Callable[[], None], remedy: str, tmp_path: Path
) -> None:
    app = shop(tmp_path / "shop.db", lambda: None)
    app.source("till", provider="standard-webhooks", secret=SECRET, inline=True)
    app.on("till", "order.*", name="served")(handler)

    told = failure(app, EVENT, source="till", only="kill:1")

    assert "2 times instead of once" in told
    assert remedy in told
    assert "job." not in told
    assert "for job" not in told
    assert "end of the job" not in told


def created(tx: duly.Tx) -> None:
    tx.execute("INSERT INTO orders (id, note) VALUES ('o-1', 'new')")


def updated(tx: duly.Tx) -> None:
    tx.execute("UPDATE orders SET note = 'paid' WHERE id = 'o-1'")


def both(event: duly.Event, tx: duly.Tx) -> None:
    (created if event.type == "made" else updated)(tx)


FIRST, SECOND = ({"type": kind, "order": "o-1", "at": at} for kind, at in (("made", 1), ("set", 2)))
ORDER: dict[str, Any] = {"order": ("order", "at")}


@pytest.mark.parametrize(
    ("handlers", "options", "remedy"),
    [
        ((created, updated), ORDER, "let one handler take all of these types"),
        ((created, updated), {}, "each handler has an order of its own"),
        ((both, both), ORDER, "An event that comes late is passed over"),
        ((both, both), {}, "declare order= on it"),
    ],
)
def test_a_declared_order_is_not_told_to_be_declared(
    handlers: tuple[Callable[..., None], ...], options: Any, remedy: str, tmp_path: Path
) -> None:
    app = shop(tmp_path / "shop.db", lambda: None)
    for kind, handler in zip(("made", "set"), handlers, strict=True):
        app.on("shop", kind, **options)(handler)

    told = failure(app, [FIRST, SECOND], only="reordered")

    assert "order-dependent write" in told
    assert remedy in told
    assert ("declare order=" in told) == (handlers == (both, both) and not options)


def test_an_inline_handler_is_not_told_to_declare_an_order(tmp_path: Path) -> None:
    app = shop(tmp_path / "shop.db", lambda: None)
    app.source("till", provider="standard-webhooks", secret=SECRET, inline=True)
    app.on("till", "*", name="served")(both)

    told = failure(app, [FIRST, SECOND], source="till", only="reordered")

    assert "ask tx.newer(…)" in told
    assert "order= on it" not in told


@pytest.mark.parametrize(
    ("work", "remedy"),
    [(mail, f"stage the e-mail with {BY_MAIL}"), (call, "stage the call with tx.send(…)")],
)
def test_a_mark_before_a_call_is_told_how_the_call_gets_into_the_transaction(
    work: Callable[[], None], remedy: str, tmp_path: Path
) -> None:
    path = tmp_path / "shop.db"

    def handler() -> None:
        with closing(sqlite3.connect(path, timeout=10)) as own, own:
            new = own.execute("INSERT OR IGNORE INTO marks VALUES ('o-1')").rowcount
        if new:
            work()

    app = shop(path, handler)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE marks (id TEXT PRIMARY KEY)")

    told = failure(app, EVENT, only="kill:4")

    assert "mark before work" in told
    assert f"write the mark through `tx`, and in the same transaction {remedy}" in told


@pytest.mark.parametrize("inline", [False, True])
def test_what_a_route_does_after_the_claim_is_told_to_move(inline: bool, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    app = shop(path, lambda: None)
    app.source("till", provider="standard-webhooks", secret=SECRET, inline=inline)
    app.on("till", "order.*", name="served")(created)
    receive = fastapi.endpoint(app, "till")

    async def pay(request: Request) -> Any:
        answer = await receive(request)
        with closing(sqlite3.connect(path, timeout=10)) as own, own:
            own.execute("INSERT INTO log VALUES ('visited')")
        return answer

    site = Starlette(routes=[Route("/pay", pay, methods=["POST"])])
    told = failure(app, EVENT, source="till", through=site, path="/pay", only="twice")

    assert "side effect in the route" in told
    assert "move it into the handler" in told
    assert "through `tx`" not in told


def test_what_waits_for_the_commit_is_told_to_be_part_of_it(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'shop.db'}")

    def handler(tx: duly.Tx) -> None:
        tx.session.execute(text("INSERT INTO orders (id) VALUES ('o-1')"))
        sqlalchemy_event.listen(tx.session, "after_commit", lambda _: mail())

    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE orders (id TEXT)"))
    engine.dispose()
    app = duly.Duly(begin=sessionmaker(engine))
    app.source("shop", provider="standard-webhooks", secret=SECRET)
    app.on("shop", "order.*", name="handler")(handler)

    told = failure(app, EVENT)

    assert "side effect after the commit" in told
    assert "the e-mail to ada@example.com was sent not at all instead of once" in told
    assert f"stage the e-mail with {BY_MAIL}" in told
    assert "The e-mail to ada@example.com comes after the COMMIT" in told
    assert "transaction.on_commit" in told


@pytest.mark.parametrize("what", ["job", "keyed job", "row", "message"])
def test_what_is_enqueued_outside_the_transaction_is_told_so_though_it_is_due_at_once(
    what: str, tmp_path: Path
) -> None:
    path = tmp_path / "shop.db"

    def handler() -> None:
        if what == "message":
            app.send("https://books.example/", json={"n": 1})
        else:
            app.enqueue(what)

    def pay(job: duly.Job) -> None:
        job.http.post(BANK, key="pay", json={"amount": 20})

    app = shop(path, handler)
    app.job(name="job")(call)
    app.job(name="keyed job")(pay)
    app.job(name="row")(created)

    told = failure(app, EVENT)

    assert "not safe to repeat: enqueue outside the transaction killed after" in told
    assert "tx.enqueue(…) or tx.send(…)" in told


def test_a_row_that_is_inserted_after_an_enqueue_is_told_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"

    def handler() -> None:
        app.enqueue("set")
        with closing(sqlite3.connect(path, timeout=10)) as own, own:
            own.execute("INSERT INTO orders (id) VALUES ('o-1')")

    def harmless(tx: duly.Tx) -> None:
        tx.execute("UPDATE log SET line = 'seen'")

    app = shop(path, handler)
    app.job(name="set")(harmless)

    assert "not safe to repeat: blind insert killed after" in failure(app, EVENT)


def test_the_jobs_of_a_proof_run_one_after_the_other(tmp_path: Path) -> None:
    # Beside each other they take their steps in another order each time, and so the story changes.
    begun = threading.Event()
    overlapped = tmp_path / "overlapped"

    def handler() -> None:
        app.enqueue("set", key="o-1")
        if begun.wait(0.5):
            overlapped.touch()

    def harmless(tx: duly.Tx) -> None:
        begun.set()
        tx.execute("UPDATE log SET line = 'seen'")

    app = shop(tmp_path / "shop.db", handler)
    app.job(name="set")(harmless)
    assert_effectively_once(app, EVENT, only="twice")

    assert not overlapped.exists()


def test_a_key_that_changes_with_the_attempt_is_told_as_a_key(tmp_path: Path) -> None:
    def handler(job: duly.Job) -> None:
        headers = {"Idempotency-Key": f"{job.key('charge')}-{job.attempt}"}
        httpx.post(BANK, json={"amount": 20}, headers=headers)

    told = failure(shop(tmp_path / "shop.db", handler), EVENT, only="fail")

    assert "idempotency key made anew" in told
    assert "use job.key(…)" in told


def test_a_handler_that_goes_by_its_attempt_is_told_of_it(tmp_path: Path) -> None:
    def handler(job: duly.Job, tx: duly.Tx) -> None:
        tx.execute("INSERT INTO orders (id) VALUES (:id)", id=f"o-{job.attempt}")

    told = failure(shop(tmp_path / "shop.db", handler), EVENT, only="fail")

    assert "state in the process" in told
    assert "job.attempt" in told


def test_one_key_for_two_events_is_not_told_as_an_order(tmp_path: Path) -> None:
    def handler(event: duly.Event, tx: duly.Tx) -> None:
        httpx.post(BANK, json={"for": event.type}, headers={"Idempotency-Key": "charge-cust-7"})
        both(event, tx)

    app = shop(tmp_path / "shop.db", lambda: None)
    app.on("shop", "*", name="charges")(handler)
    told = failure(app, [FIRST, SECOND], effects=[], only="reordered")

    assert "one idempotency key for two events" in told
    assert "from event.id" in told


def test_a_repeat_under_one_key_with_another_body_is_noted(tmp_path: Path) -> None:
    def handler(job: duly.Job) -> None:
        headers = {"Idempotency-Key": job.key("charge")}
        httpx.post(BANK, json={"amount": 20, "at": time.time()}, headers=headers)

    app = shop(tmp_path / "shop.db", handler)
    asked = ProofRequest((EventAsk("shop", json.dumps(EVENT).encode()),), only="kill:3")
    verdict = prove_handler(lambda: Subject(app, None), asked, ProofOptions(), lambda _: None)
    app.close()

    assert verdict.finding is None
    [note] = [one for one in verdict.notes if "another body" in one]
    assert note.startswith(f"POST {BANK} was repeated under one key with another body")
