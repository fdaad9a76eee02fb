"""Types as a promise: mypy reads this module in `make check` and must agree with every line."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, assert_type

import duly
from duly import aio, idempotency
from duly.core.session import Row, Rows
from duly.ledger.turn import Turn

if TYPE_CHECKING:
    import sqlite3

    from duly.jobs.tx import AsyncTx

LEASE = timedelta(minutes=1)
Answer = duly.First | duly.Duplicate


def blocking(store: duly.types.Store, connection: sqlite3.Connection) -> None:
    """The types of the blocking verbs, for the type checker only."""
    assert_type(duly.dedup(store, "a", "b"), Answer)
    assert_type(duly.dedup_many(connection, "a", ["b", b"c"]), list[Answer])
    with duly.once(connection, "a", "b") as turn:
        assert_type(turn, Turn)
        assert_type(turn.first, bool)
    with duly.once(store, "a", "b", lease=LEASE) as leased:
        assert_type(leased, idempotency.LeasedTurn)
        assert_type(leased.epoch, int)
    assert_type(duly.fence(store, "a", "b", lambda: [1]), list[int])
    assert_type(duly.newer(connection, "a", 1, "skip"), bool)


async def awaited(store: duly.types.Store) -> None:
    """The types of the awaited verbs, for the type checker only."""
    assert_type(await aio.dedup(store, "a", "b"), Answer)
    async with aio.once(store, "a", "b", lease=LEASE) as leased:
        assert_type(leased, aio.AsyncLeasedTurn)
        await leased.mark("done")


def handled(event: duly.Event, tx: duly.Tx) -> None:
    """The types of what a handler that blocks is given, for the type checker only."""
    assert_type(event.id, str)
    assert_type(event.type, str | None)
    assert_type(event.tenant, str | None)
    assert_type(event.body, bytes)
    assert_type(event.headers, Mapping[str, str])
    assert_type(event.received_at, datetime)
    assert_type(event.time, datetime | None)
    rows = tx.execute("SELECT :n AS n", n=1)
    assert_type(rows, Rows)
    assert_type(rows[0], Row)
    assert_type(rows.rowcount, int)
    assert_type(tx.newer("order", 1), bool)


async def handled_later(tx: AsyncTx) -> None:
    """The same for one that is awaited."""
    assert_type(await tx.execute("SELECT 1"), Rows)
    assert_type(await tx.newer("order", 1), bool)


def bulk(app: duly.Duly, sell_tx: duly.Tx) -> None:
    """The types of bulk handlers, for the type checker only."""

    @app.job(many=100, order=("account", "version"), tie="skip")
    def sell(jobs: list[duly.Job], tx: duly.Tx) -> None:
        assert_type([job.attempt for job in jobs], list[int])
        assert_type(tx.execute("SELECT 1"), Rows)

    @app.job(many=100)
    async def sell_later(jobs: list[aio.Job], tx: aio.Tx) -> None:
        assert_type(jobs[0].id, str)

    sell([], sell_tx)
    app.job(many="100")  # type: ignore[call-overload]
    app.on("shop", many=100)  # type: ignore[call-arg]
    app.cron("* * * * *", many=100)  # type: ignore[call-arg]


async def application(app: duly.Duly) -> None:
    """The types of an application, for the type checker only."""
    assert_type(app.store, duly.types.Store)
    assert_type(app.forget("shop", "evt_1"), duly.types.Forgotten)
    assert_type(await app.aio.forget("shop", "evt_1"), duly.types.Forgotten)
    app.source("shop", secret="a", tenant=lambda verified: verified.id, window=None)
    duly.Duly(begin=duly.django.database())


def test_a_handler_is_the_same_function_after_it_was_added() -> None:
    app = duly.Duly("memory:")
    app.source("shop", provider="github", secret="a secret")

    @app.on("shop", "paid", name="handle")
    def handle(event: duly.Event) -> int:
        return len(event.body)

    checked: Callable[[duly.Event], int] = handle
    assert inspect.isfunction(checked)
    app.close()


def test_an_answer_is_narrowed_by_matching() -> None:
    def story(answer: Answer) -> str:
        match answer:
            case duly.First():
                return f"first, epoch {answer.epoch}"
            case duly.Duplicate(result=result):
                return f"duplicate, {result}"

    with duly.store("memory:") as store:
        assert story(duly.dedup(store, "a", "b")) == "first, epoch 1"
        assert story(duly.dedup(store, "a", "b")) == "duplicate, None"
