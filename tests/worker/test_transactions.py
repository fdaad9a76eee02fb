"""What a handler with ``tx`` does is one transaction with its end, and duly alone ends it."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import duly
from tests.worker.subjects import WOVEN, cases

if TYPE_CHECKING:
    from tests.worker.subjects import Case, DatabaseOf, Hand

SECRET = "whsec_" + "A" * 32
INSIDE = [case for case in WOVEN if case.way == "tx"]

# SQLite checks no foreign keys on duly's connection, and no error there fails a transaction.
POSTGRES = cases(kinds=["postgres"], ways=["tx"])


class Trouble(Exception):
    """Something that goes wrong in a handler."""


@pytest.mark.promise("I2", "I4", "one transaction")
async def test_child_jobs_stay_or_go_with_the_work_of_their_parent(
    with_tx: Case, place: DatabaseOf
) -> None:
    ran: list[Any] = []

    async def parent(hand: Hand) -> None:
        await hand.write(str(hand.job.attempt))
        child = await hand.enqueue("child", hand.job.attempt, key=f"child-{hand.job.id}")
        assert child.first
        many = hand.tx.enqueue_many("child", [f"{hand.job.attempt}-{n}" for n in range(2)])
        await hand.waited(many)
        if hand.job.attempt == 1:
            raise Trouble

    async def child(hand: Hand) -> None:
        ran.append(hand.job.payload)

    async with with_tx.open(place) as subject:
        subject.job(parent, attempts=2)
        subject.job(child, name="child")
        id = await subject.enqueue()
        worked = await subject.work()
        assert (worked.done, worked.retried) == (4, 1)
        assert sorted(map(str, ran)) == ["2", "2-0", "2-1"]  # none of the first attempt's
        assert subject.records.notes(id) == ["2"]
        assert subject.records.states() == []


@pytest.mark.parametrize("verb", ["commit", "rollback", "close"])
async def test_ending_the_transaction_in_a_handler_is_refused_with_the_remedy(
    with_tx: Case, place: DatabaseOf, verb: str
) -> None:
    async def ends(hand: Hand) -> None:
        await hand.write("half")
        if hand.job.payload == "sql" and verb != "close":
            await hand.waited(hand.tx.execute(verb))
        await hand.waited(getattr(hand.tx.connection, verb)())

    async with with_tx.open(place) as subject:
        subject.job(ends)
        ids = [await subject.enqueue(payload=how) for how in ("connection", "sql")]
        assert (await subject.work()).dead == 2
        for id in ids:
            row = subject.records.present(id)
            assert row.error is not None
            assert row.error["type"] == "duly.errors.UsageError"
            assert "return to commit" in row.error["message"]
            assert "raise to roll it back" in row.error["message"]
        assert subject.records.notes() == []


async def test_a_handler_that_swallows_the_refusal_is_committed_whole(
    with_tx: Case, place: DatabaseOf
) -> None:
    async def persists(hand: Hand) -> None:
        await hand.write("before")
        for verb in ("commit", "rollback", "close"):
            with suppress(duly.errors.UsageError):
                getattr(hand.tx.connection, verb)()
        await hand.write("after")

    async with with_tx.open(place) as subject:
        subject.job(persists)
        id = await subject.enqueue()
        assert (await subject.work()).done == 1
        assert subject.records.notes(id) == ["after", "before"]


async def calls(hand: Hand, verb: str) -> None:
    """Call a verb of the app inside a handler as if its transaction were not there."""
    app = hand.subject.app
    if verb == "transaction":
        if hand.subject.case.colour == "async":
            async with app.aio.transaction():
                return
        with app.transaction():
            return
    verbs: Any = app.aio if hand.subject.case.colour == "async" else app
    payload = ["lost"] if verb == "enqueue_many" else "lost"
    await hand.waited(getattr(verbs, verb)("child", payload))


@pytest.mark.parametrize("verb", ["enqueue", "enqueue_many", "transaction"])
async def test_a_verb_that_would_commit_apart_is_refused_in_a_handler_with_the_remedy(
    with_tx: Case, place: DatabaseOf, verb: str
) -> None:
    async def forgets(hand: Hand) -> None:
        await hand.write("half")
        await calls(hand, verb)

    async def child(hand: Hand) -> None:
        await hand.write("child")

    async with with_tx.open(place) as subject:
        subject.job(forgets)
        subject.job(child, name="child")
        id = await subject.enqueue()
        worked = await subject.work()
        assert (worked.done, worked.dead) == (0, 1)
        error = subject.records.present(id).error
        assert error is not None
        assert error["type"] == "duly.errors.UsageError"
        assert f"{verb} inside handler work" in error["message"]
        remedy = "its tx is what you have already" if verb == "transaction" else "tx.enqueue"
        assert remedy in error["message"]
        assert subject.records.notes() == []


async def test_the_same_verbs_work_where_no_transaction_is_open_or_it_is_handed_over(
    case: Case, place: DatabaseOf
) -> None:
    async def parent(hand: Hand) -> None:
        app = hand.subject.app
        verbs: Any = app.aio if case.colour == "async" else app
        await hand.waited(verbs.enqueue("child", tx=hand.tx))
        await hand.waited(verbs.enqueue_many("child", [None], tx=hand.tx))

    async def child(hand: Hand) -> None:
        await hand.write("child")

    async with case.open(place) as subject:
        subject.job(parent)
        subject.job(child, name="child")
        await subject.enqueue()
        assert (await subject.work()).done == 3
        assert subject.records.notes() == ["child", "child"]


async def test_an_effect_inside_a_transaction_is_refused_with_the_remedy(
    with_tx: Case, place: DatabaseOf
) -> None:
    async def charges(hand: Hand) -> None:
        await hand.effect("charge", lambda _: pytest.fail("the card was charged"))

    async with with_tx.open(place) as subject:
        subject.job(charges)
        id = await subject.enqueue()
        assert (await subject.work()).dead == 1
        error = subject.records.present(id).error
        assert error is not None
        assert error["type"] == "duly.errors.UsageError"
        assert "without tx" in error["message"]
        assert subject.records.rows("SELECT * FROM duly_effects") == []


@pytest.mark.parametrize("verb", ["enqueue", "enqueue_many", "transaction"])
@pytest.mark.parametrize("case", INSIDE, ids=lambda case: case.name)
async def test_an_inline_handler_is_refused_the_same_and_its_event_is_not_taken(
    case: Case, place: DatabaseOf, verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    refused: list[duly.errors.UsageError] = []

    async def body(hand: Hand) -> None:
        try:
            await calls(hand, verb)
        except duly.errors.UsageError as problem:
            refused.append(problem)
            raise

    async with case.open(place) as subject:
        subject.job(lambda _: pytest.fail("it was enqueued"), name="child")
        subject.app.source("shop", provider="standard-webhooks", secret=SECRET, inline=True)
        subject.app.on("shop", name="inline")(subject.event_handler(body, inline=True))
        sent = duly.sign("standard-webhooks", b'{"type":"order.paid"}', SECRET, id="evt_1")
        transport = httpx.ASGITransport(app=subject.app)
        async with httpx.AsyncClient(transport=transport) as client:
            answer = await client.post(
                "http://shop.test/shop", headers=dict(sent.headers), content=sent.body
            )
        assert (answer.status_code, answer.json()["error"]) == (500, "HANDLER_FAILED")
        assert f"{verb} inside handler inline" in str(refused[0])
        everything = subject.records.everything()
        assert {table for table, rows in everything.items() if rows} <= {"duly_workers"}


async def test_a_handler_of_an_event_runs_as_a_job_with_its_transaction(
    with_tx: Case, place: DatabaseOf
) -> None:
    async def body(hand: Hand) -> None:
        await hand.write(hand.job.event_id)
        if hand.job.attempt == 1:
            raise Trouble

    async with with_tx.open(place) as subject:
        app = subject.app
        app.source("shop", provider="standard-webhooks", secret=SECRET)
        backoff = duly.Backoff(first=timedelta(0))
        app.on("shop", name="deferred", backoff=backoff)(subject.event_handler(body))
        sent = duly.sign("standard-webhooks", b'{"type":"order.paid"}', SECRET, id="evt_1")
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport) as client:
            for _ in range(2):
                answer = await client.post(
                    "http://shop.test/shop", headers=dict(sent.headers), content=sent.body
                )
                assert answer.status_code == 200
        worked = await subject.work()
        assert (worked.done, worked.retried) == (1, 1)
        assert subject.records.notes() == ["evt_1"]


@pytest.mark.promise("I3")
@pytest.mark.parametrize("case", POSTGRES, ids=lambda case: case.name)
async def test_what_cannot_be_committed_fails_the_job_and_leaves_nothing(
    case: Case, place: DatabaseOf
) -> None:
    async def orphans(hand: Hand) -> None:
        await hand.write("half")
        await hand.waited(hand.tx.execute("INSERT INTO parts (whole) VALUES ('nowhere')"))

    async with case.open(place) as subject:
        subject.records.run("CREATE TABLE IF NOT EXISTS wholes (name text PRIMARY KEY)")
        subject.records.run(
            "CREATE TABLE IF NOT EXISTS parts"
            " (whole text REFERENCES wholes (name) DEFERRABLE INITIALLY DEFERRED)"
        )
        subject.job(orphans, attempts=2)
        id = await subject.enqueue()
        worked = await subject.work()
        assert (worked.done, worked.retried, worked.dead) == (0, 1, 1)
        assert subject.records.counted(id) == ("dead", 2, 0)
        error = subject.records.present(id).error
        assert error is not None
        assert "foreign key" in error["message"].lower()
        assert (subject.records.notes(), subject.records.history(id)) == ([], [])


@pytest.mark.parametrize("case", POSTGRES, ids=lambda case: case.name)
async def test_an_error_of_the_database_that_was_swallowed_is_not_taken_for_success(
    case: Case, place: DatabaseOf
) -> None:
    async def swallows(hand: Hand) -> None:
        await hand.write("half")
        with suppress(Exception):
            await hand.waited(hand.tx.execute("SELECT 1 / 0"))

    async with case.open(place) as subject:
        subject.job(swallows)
        id = await subject.enqueue()
        assert (await subject.work()).dead == 1
        error = subject.records.present(id).error
        assert error is not None
        assert "transaction has failed" in error["message"]
        assert (subject.records.notes(), subject.records.history(id)) == ([], [])


async def test_a_transaction_cannot_be_used_after_its_handler(
    with_tx: Case, place: DatabaseOf
) -> None:
    leaked: list[Any] = []

    async def leaks(hand: Hand) -> None:
        leaked.append(hand.tx)

    async with with_tx.open(place) as subject:
        subject.job(leaks)
        await subject.enqueue()
        assert (await subject.work()).done == 1
        with pytest.raises(duly.errors.UsageError, match="this transaction is over"):
            leaked[0].execute("SELECT 1")
        with pytest.raises(duly.errors.UsageError, match="this transaction is over"):
            leaked[0].enqueue("work")
