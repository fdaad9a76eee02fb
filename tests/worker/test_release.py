"""What a worker cannot run, or may not run any longer, is given back: free where it never began."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import sessionmaker

from duly.core.retry import RESCUE_LIMIT
from duly.worker import executor, run_job
from tests.worker.lingering import Lingering, give_back
from tests.worker.subjects import Case, cases, seen, working

if TYPE_CHECKING:
    from duly.worker.execution import Execution
    from tests.worker.subjects import DatabaseOf, Hand, Subject

AWAITED = cases(colours=["async"], ways=["leased"])
BLOCKING = cases(colours=["sync"], ways=["leased"])
# On PostgreSQL so many connections leave one for the transactions of handlers.
FEW = 3
SHORT = timedelta(milliseconds=500)


async def cancelled_work(subject: Subject, works: Lingering, *names: str) -> None:
    """Work as part of a program that ends it by cancelling, while these run."""
    working = asyncio.ensure_future(subject.app.aio.work(until="stopped", lease=SHORT))
    await works.run(*names)
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working


@pytest.mark.parametrize("case", AWAITED, ids=lambda case: case.name)
async def test_work_that_is_cancelled_leaves_no_handler_running_and_gives_its_jobs_back(
    case: Case, place: DatabaseOf
) -> None:
    works = Lingering()
    async with case.open(place) as subject:
        subject.job(works)
        ids = [await subject.enqueue(payload=name) for name in ("one", "two")]
        await cancelled_work(subject, works, "one", "two")
        assert sorted(works.ended) == ["one cancelled", "two cancelled"]
        assert [subject.records.counted(id) for id in ids] == [("ready", 0, 1)] * 2
        assert subject.records.rows("SELECT id FROM duly_workers") == []


@pytest.mark.parametrize("case", BLOCKING, ids=lambda case: case.name)
async def test_work_that_is_cancelled_leaves_the_lease_to_a_thread_that_runs_on(
    case: Case, place: DatabaseOf
) -> None:
    works = Lingering()
    async with case.open(place) as subject:
        subject.job(works)
        id = await subject.enqueue(payload="one")
        await cancelled_work(subject, works, "one")
        try:
            row = subject.records.present(id)
            assert (works.running, row[:3]) == (["one"], ("leased", 0, 0))
            assert subject.records.rows("SELECT id FROM duly_workers") == [(row.worker,)]
        finally:
            works.let_go("one")
            await works.run()
        await seen(lambda: subject.records.history(id) == [("work", "done", 1)])


async def test_a_job_that_waits_for_its_turn_to_open_a_transaction_is_given_back_free(
    with_tx: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "HELD_TOO_LONG", 0.05)
    gate = threading.Event()
    stop_the_first_before_begin(monkeypatch, gate)
    ran: list[tuple[int, int, int]] = []

    async def works(hand: Hand) -> None:
        ran.append((hand.job.payload, hand.job.attempt, hand.job.rescues))

    async with with_tx.open(place, connections=FEW) as subject:
        subject.job(works)
        first, second = [await subject.enqueue(payload=turn) for turn in (1, 2)]
        async with working(subject):
            await seen(lambda: subject.records.present(second).epoch > 2)
            gate.set()
            await seen(lambda: subject.records.states() == [])
        assert ran == [(1, 1, 0), (2, 1, 0)]
        assert [subject.records.history(id) for id in (first, second)] == [
            [("work", "done", 1)]
        ] * 2


def stop_the_first_before_begin(monkeypatch: pytest.MonkeyPatch, gate: threading.Event) -> None:
    """Have the first run take its turn, and wait before it opens its transaction."""
    begin = run_job.run_in_transaction

    async def late(run: Execution, *positional: Any, **options: Any) -> Any:
        while run.leased.payload == b"1" and not gate.is_set():
            if run.handler.mode == "async":
                await asyncio.sleep(0.01)
            else:
                time.sleep(0.01)  # noqa: ASYNC251  # this handler blocks
        return await begin(run, *positional, **options)

    monkeypatch.setattr(run_job, "run_in_transaction", late)


@pytest.mark.parametrize(
    "with_tx",
    cases(kinds=["sqlite", "postgres"], colours=["sync"], ways=["tx"]),
    ids=lambda c: c.name,
)
async def test_a_job_that_finds_no_free_connection_waits_as_often_as_it_must_at_no_cost(
    with_tx: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_job, "BUSY", 10_000)
    driver = place.url.replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(driver, pool_size=1, max_overflow=0, pool_timeout=0.02)
    ran: list[tuple[int, int]] = []

    async def works(hand: Hand) -> None:
        ran.append((hand.job.attempt, hand.job.rescues))

    async with with_tx.open(place, begin=sessionmaker(engine)) as subject:
        subject.job(works)
        id = await subject.enqueue()
        async with working(subject):
            with engine.connect():  # the only one
                await seen(lambda: subject.records.present(id).epoch > RESCUE_LIMIT + 2)
                assert ran == []
            await seen(lambda: subject.records.states() == [])
        assert ran == [(1, 0)]
        assert subject.records.history(id) == [("work", "done", 1)]
    engine.dispose()


@pytest.mark.parametrize("case", AWAITED, ids=lambda case: case.name)
async def test_a_worker_that_leases_a_job_again_ends_the_run_before_and_never_has_two(
    case: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "AGAIN", 10_000)
    works = Lingering()
    async with case.open(place) as subject:
        subject.job(works)
        id = await subject.enqueue(payload="one")
        async with working(subject):  # with a lease so long that no heartbeat tells of its loss
            await works.run("one")
            give_back(subject, id, 1)
            await seen(lambda: works.ended == ["one cancelled"])
            await works.run("one")
            # The second lease was given back at no cost: the first run may need time to end.
            assert subject.records.present(id)[:4] == ("leased", 0, 1, 3)
            works.let_go("one")
            await seen(lambda: subject.records.states() == [])
        assert works.ended == ["one cancelled", "one through"]
        assert works.beside == {"one": []}
        assert subject.records.history(id) == [("work", "done", 1)]
