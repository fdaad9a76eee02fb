"""A worker enqueues each slot as it comes, and runs what it enqueued."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly.jobs.job import AsyncJob, Job
from duly.jobs.tx import AsyncTx
from duly.worker.settings import WorkerSettings
from tests.conftest import HandClock
from tests.jobs.schedule.slots import DAY, MINUTE, enqueued, report
from tests.support.processes import until


def test_a_slot_leads_to_one_job_that_knows_its_slot(app: duly.Duly, clock: HandClock) -> None:
    seen: list[Any] = []

    @app.cron("*/5 * * * *", name="report")
    def note(job: Job) -> None:
        seen.append(job.payload)

    app.work()  # the schedule begins now
    clock.advance(5 * MINUTE)
    app.work()
    app.work()
    assert seen == [{"slot": "2026-01-01T00:05:00+00:00"}]


async def test_an_awaited_handler_with_tx_is_scheduled_in_its_time_zone(
    url: str, clock: HandClock
) -> None:
    app = duly.Duly(url, clock=clock)
    seen: list[Any] = []

    @app.cron("30 9 * * *", tz="Europe/Berlin", name="report")
    async def note(job: AsyncJob, tx: AsyncTx) -> None:
        await tx.execute("SELECT 1 AS one")
        seen.append(job.payload)

    await app.aio.work()
    clock.advance(DAY)
    await app.aio.work()
    assert seen == [{"slot": "2026-01-01T08:30:00+00:00"}]
    await app.aclose()


def test_work_until_idle_does_all_that_is_due(app: duly.Duly, clock: HandClock) -> None:
    for number in range(20):
        app.cron("* * * * *", name=f"report {number}")(report)
    app.work()
    clock.advance(MINUTE)
    assert app.work().done == 20


async def test_a_worker_looks_again_at_the_next_slot_and_at_least_every_second(
    url: str, clock: HandClock
) -> None:
    app = duly.Duly(url, clock=clock)
    app.cron("0 0 1 6 *", name="rare")(report)
    app.cron("* * * * *", name="report")(report)
    scheduler = app.process.worker(WorkerSettings())._scheduler
    await scheduler.tick()
    assert 0.3 < await scheduler.tick() <= 1
    clock.advance(MINUTE - timedelta(milliseconds=200))
    assert 0.02 <= await scheduler.tick() <= 0.2
    await app.aclose()


def test_a_worker_that_is_at_work_notices_the_slot_by_itself(
    app: duly.Duly, clock: HandClock
) -> None:
    seen: list[Any] = []

    @app.cron("* * * * *", name="report")
    def note(job: Job) -> None:
        seen.append(job.payload["slot"][11:16])

    clock.advance(MINUTE - timedelta(milliseconds=30))  # so it looks again in as long
    app.work()  # the schedule begins now
    with at_work(app):
        for _ in range(2):
            clock.advance(MINUTE)
            until(lambda: f"{clock():%H:%M}" in seen or None)
    assert seen == ["00:01", "00:02"]


@contextmanager
def at_work(app: duly.Duly) -> Iterator[None]:
    """A worker in a thread of its own, until the block ends."""
    worker = app.process.worker(WorkerSettings())

    async def ran() -> None:
        await worker.run("stopped")
        await app.store.aclose_loop()

    thread = threading.Thread(target=asyncio.run, args=(ran(),))
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join()


def test_one_schedule_that_cannot_be_enqueued_keeps_its_slot_and_no_other_waiting(
    app: duly.Duly, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    app.cron("* * * * *", name="broken", queue="later")(report)
    app.cron("* * * * *", name="sound", queue="later")(report)
    app.work(queues=["default"])
    clock.advance(MINUTE)
    handler = app.registries.jobs.plain.pop("broken")
    app.work(queues=["default"])
    assert len(enqueued(app.store)) == 1
    assert "job broken could not be scheduled now" in caplog.text
    app.registries.jobs.add(handler)
    app.work(queues=["default"])
    assert enqueued(app.store) == ["2026-01-01T00:01:00+00:00"] * 2
