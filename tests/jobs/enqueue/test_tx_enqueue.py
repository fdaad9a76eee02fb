"""Jobs of a transaction that duly opened: enqueued through its ``tx``, and through nothing else."""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING, Any

import pytest

import duly
from tests.jobs.enqueue.desks import CASES, Case, Desk

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

everywhere = pytest.mark.parametrize("case", CASES, ids=str)


async def waited(result: Any) -> Any:
    """What a verb of either colour returns."""
    return await result if hasattr(result, "__await__") else result


def within(desk: Desk, body: Callable[[Any], Awaitable[Any]]) -> Any:
    """Run a coroutine over ``tx`` in a transaction of the app's, in the desk's colour."""

    async def awaited() -> Any:
        async with desk.app.aio.transaction() as tx:
            return await body(tx)

    def blocking() -> Any:
        with desk.app.transaction() as tx:
            step: Any = body(tx)
            try:
                step.send(None)
            except StopIteration as end:
                return end.value
            raise AssertionError("it waits")

    return desk.call(awaited if desk.colour == "async" else blocking)


@pytest.mark.promise("I4")
@everywhere
def test_a_transaction_keeps_its_jobs_if_it_commits(case: Case, desk: Desk) -> None:
    async def enqueue(tx: Any) -> list[duly.types.Enqueued]:
        one = await waited(tx.enqueue(desk.name, 1, key="receipt-1"))
        same = await waited(tx.enqueue(desk.name, 2, key="receipt-1"))
        many = await waited(tx.enqueue_many(desk.name, [3, 4]))
        other = await waited(desk.verbs.enqueue(desk.name, 5, tx=tx))
        more = await waited(desk.verbs.enqueue_many(desk.name, [6], keys=["a"], tx=tx))
        assert desk.jobs() == []
        return [one, same, *many, other, *more]

    made = within(desk, enqueue)

    assert [one.first for one in made] == [True, False, True, True, True, True]
    assert made[1].id == made[0].id
    assert {job for job, _ in desk.jobs()} == {one.id for one in made}


@pytest.mark.promise("I4")
@everywhere
def test_a_transaction_that_raises_leaves_no_job_and_no_key(case: Case, desk: Desk) -> None:
    async def enqueue(tx: Any) -> None:
        await waited(tx.enqueue(desk.name, 1, key="receipt-1"))
        await waited(tx.enqueue_many(desk.name, [2, 3]))
        raise LookupError("not today")

    with pytest.raises(LookupError, match="not today"):
        within(desk, enqueue)

    assert desk.jobs() == []
    assert desk.enqueue(key="receipt-1").first


@everywhere
@pytest.mark.parametrize("verb", ["enqueue", "enqueue_many"])
def test_enqueueing_beside_the_open_transaction_is_refused_with_the_remedy(
    case: Case, desk: Desk, verb: str
) -> None:
    async def enqueue(tx: Any) -> None:
        with pytest.raises(duly.errors.UsageError, match=r"use tx\.enqueue\(…\), or pass tx=tx"):
            await waited(getattr(desk.verbs, verb)(desk.name, []))
        with pytest.raises(duly.errors.UsageError, match="open"):
            await waited(desk.verbs.transaction().__aenter__()) if case.colour == "async" else (
                desk.app.transaction().__enter__()
            )

    within(desk, enqueue)
    assert desk.jobs() == []
    assert desk.enqueue().first


@everywhere
@pytest.mark.parametrize("verb", ["enqueue", "enqueue_many"])
def test_the_same_is_refused_in_a_handler_with_tx(case: Case, desk: Desk, verb: str) -> None:
    def blocking(tx: duly.Tx) -> None:
        getattr(desk.app, verb)(desk.name, [])

    async def awaited(tx: Any) -> None:
        await getattr(desk.app.aio, verb)(desk.name, [])

    name = f"{desk.name}-tx"
    handler: Any = awaited if case.colour == "async" else blocking
    desk.app.job(name=name, queue=desk.name)(handler)
    desk.call(desk.verbs.enqueue, name)
    worked = desk.work()

    assert worked.dead == 1
    [(error,)] = desk.rows("SELECT last_error FROM duly_jobs WHERE name = '{name}-tx'")
    assert "use tx.enqueue(…), or pass tx=tx" in bytes(error).decode()
    assert desk.jobs() == []


@everywhere
def test_child_jobs_of_a_handler_run_if_it_commits_and_never_existed_if_not(
    case: Case, desk: Desk
) -> None:
    ran: list[int] = []
    parent, child = f"{desk.name}-parent", f"{desk.name}-child"

    def end(number: int) -> None:
        if number == 1:
            raise LookupError("not today")

    def blocking(job: Any, tx: duly.Tx) -> None:
        tx.enqueue(child, job.payload)
        tx.enqueue_many(child, [job.payload + 10])
        end(job.payload)

    async def awaited(job: Any, tx: Any) -> None:
        await tx.enqueue(child, job.payload)
        await tx.enqueue_many(child, [job.payload + 10])
        end(job.payload)

    def note(job: Any) -> None:
        ran.append(job.payload)

    handler: Any = awaited if case.colour == "async" else blocking
    desk.app.job(name=parent, queue=desk.name)(handler)
    desk.app.job(name=child, queue=desk.name)(note)
    desk.call(desk.verbs.enqueue_many, parent, [1, 2])
    worked = desk.work()

    assert (worked.done, worked.dead) == (3, 1)
    assert sorted(ran) == [2, 12]
    assert desk.rows("SELECT 1 FROM duly_jobs WHERE name = '{name}-child'") == []


@everywhere
def test_a_tx_is_over_with_its_block(case: Case, desk: Desk) -> None:
    kept: list[Any] = []

    async def keep(tx: Any) -> None:
        kept.append(tx)

    within(desk, keep)
    with pytest.raises(duly.errors.UsageError, match="over"):
        desk.call(kept[0].enqueue, desk.name)
    with pytest.raises(duly.errors.UsageError, match="over"):
        desk.call(desk.verbs.enqueue, desk.name, tx=kept[0])
    assert desk.jobs() == []


@pytest.mark.parametrize("case", [case for case in CASES if case.colour == "async"], ids=str)
def test_an_enqueue_that_nobody_awaited_is_refused_and_nothing_is_committed(
    case: Case, desk: Desk
) -> None:
    async def forget(tx: Any) -> None:
        await tx.enqueue(desk.name, "awaited")
        tx.enqueue(desk.name, "never awaited")

    with pytest.raises(duly.errors.UsageError, match="without `await`"):
        within(desk, forget)
    assert desk.jobs() == []


def test_a_tx_of_the_other_colour_names_the_twin() -> None:
    app = duly.Duly("memory:")
    app.job(name="send")(print_nothing)

    async def ask() -> None:
        with (
            app.transaction() as tx,
            pytest.raises(duly.errors.SyncAsyncMismatch, match=r"use app\.enqueue\b"),
        ):
            await app.aio.enqueue("send", tx=tx)  # type: ignore[arg-type]
        async with app.aio.transaction() as other:
            with pytest.raises(duly.errors.SyncAsyncMismatch, match=r"await app\.aio\.enqueue\b"):
                app.enqueue("send", tx=other)  # type: ignore[arg-type]

    asyncio.run(ask())
    app.close()


def print_nothing() -> None:
    """A job that asks for nothing."""


@pytest.mark.parametrize("case", [Case("postgres", "sync")], ids=str)
def test_a_transaction_may_be_entered_and_left_in_different_contexts(
    case: Case, desk: Desk
) -> None:
    """As FastAPI does with dependencies that block: each half on a thread with a context copied."""
    block = desk.app.transaction()
    tx = contextvars.copy_context().run(block.__enter__)
    made = tx.enqueue(desk.name)
    contextvars.copy_context().run(block.__exit__, None, None, None)

    assert desk.jobs() == [(made.id, "ready")]
    assert desk.enqueue().first
