"""Each slot of a schedule is enqueued once, by whichever worker comes first, and no other is."""

import asyncio
import json
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

import duly
from duly._kernel.clock import from_microseconds
from duly._kernel.onestep import finish
from duly._kernel.options import WAIT
from duly._kernel.session import Row, Session, Value
from duly.jobs.context import AsyncJob, Job
from duly.jobs.handlers import handler_of
from duly.jobs.registry import Registry
from duly.jobs.schedule import MOST, Missed, Schedule, Schedules, fire, schedule_of
from duly.jobs.statements import SCHEDULES_READ
from duly.jobs.tx import AsyncTx
from duly.runtime.settings import Settings
from tests.conftest import HandClock
from tests.inboxes import done, found
from tests.processes import until

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
STORES = {"sqlite": "sqlite_url", "postgres": "own_postgres_url"}


@pytest.fixture(params=["sqlite", "postgres", "memory"])
def url(request: pytest.FixtureRequest) -> str:
    """Every store."""
    if request.param not in STORES:
        return "memory:"
    address: str = request.getfixturevalue(STORES[request.param])
    return address


@pytest.fixture
def store(url: str, clock: HandClock) -> Iterator[duly.Store]:
    """Every store, under a clock cranked by hand."""
    with duly.store(url, clock=clock) as opened:
        yield opened


@pytest.fixture
def app(url: str, clock: HandClock) -> Iterator[duly.Duly]:
    """An application on every store, under a clock cranked by hand."""
    opened = duly.Duly(url, clock=clock)
    yield opened
    opened.close()


def report(job: Job) -> None:
    """Stands for the user's function."""


def registry() -> Registry:
    jobs = Registry()
    jobs.add(handler_of(report, "report"))
    return jobs


def scheduled(expression: str, missed: Missed = "latest", tz: str = "UTC") -> Schedule:
    return schedule_of("report", expression, tz, missed)


def fired(store: duly.Store, schedule: Schedule) -> list[str]:
    """The slots that one worker enqueues now, by their time of day."""
    step = finish(store.blocking.run(lambda one: fire(one, schedule, registry()), wait=WAIT))
    return [] if step is None else [f"{from_microseconds(slot):%H:%M}" for slot in step.slots]


def enqueued(store: duly.Store) -> list[str]:
    """The slots of all jobs there are, doubles included."""
    rows = found(store, "SELECT payload FROM duly_jobs")
    return sorted(json.loads(bytes(payload))["slot"] for (payload,) in rows)


# What a worker does


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
    worker = app.worker(Settings())

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


# Which slots are due


def test_a_schedule_begins_when_it_is_first_seen(store: duly.Store, clock: HandClock) -> None:
    clock.advance(MINUTE / 2)
    assert fired(store, scheduled("* * * * *", "all")) == []
    clock.advance(MINUTE / 2 - timedelta(microseconds=1))
    assert fired(store, scheduled("* * * * *", "all")) == []
    clock.advance(timedelta(microseconds=1))
    assert fired(store, scheduled("* * * * *", "all")) == ["00:01"]
    assert fired(store, scheduled("* * * * *", "all")) == []


@pytest.mark.parametrize(
    ("missed", "slots"),
    [("latest", ["05:00"]), ("all", ["01:00", "02:00", "03:00", "04:00", "05:00"]), ("skip", [])],
)
def test_slots_that_nobody_was_there_for_are_treated_as_asked(
    store: duly.Store, clock: HandClock, missed: Missed, slots: list[str]
) -> None:
    hourly = scheduled("0 * * * *", missed)
    fired(store, hourly)
    clock.advance(5 * HOUR + MINUTE)
    assert fired(store, hourly) == slots
    clock.advance(HOUR - timedelta(microseconds=1))  # a minute later it would be too late for skip
    assert fired(store, hourly) == ["06:00"]
    assert len(enqueued(store)) == len(slots) + 1


def test_after_a_long_absence_the_latest_thousand_are_enqueued_and_the_log_says_so(
    app: duly.Duly, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    app.cron("* * * * *", missed="all", name="report", queue="later")(report)
    app.work()
    clock.advance((MOST + 5) * MINUTE)
    app.work()
    slots = enqueued(app.store)
    assert len(slots) == MOST
    assert slots[0] == "2026-01-01T00:06:00+00:00"
    [told] = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert "those before 2026-01-01T00:06:00+00:00 are left out" in told


def test_a_changed_expression_fires_no_slot_from_before_it_was_known(
    store: duly.Store, clock: HandClock
) -> None:
    fired(store, scheduled("0 3 * * *", "all"))
    clock.advance(14 * HOUR)
    assert fired(store, scheduled("0 3 * * *", "all")) == ["03:00"]
    assert fired(store, scheduled("0 9 * * *", "all")) == []
    assert fired(store, scheduled("0 9 * * *", "all", "Europe/Berlin")) == []
    clock.advance(DAY)
    assert fired(store, scheduled("0 9 * * *", "all")) == ["09:00"]


def test_an_expression_that_comes_back_has_missed_nothing_meanwhile(
    store: duly.Store, clock: HandClock
) -> None:
    fired(store, scheduled("0 3 * * *", "all"))
    clock.advance(4 * HOUR)
    fired(store, scheduled("0 3 * * *", "all"))
    fired(store, scheduled("0 9 * * *", "all"))
    clock.advance(10 * DAY + 10 * HOUR)
    fired(store, scheduled("0 9 * * *", "latest"))
    assert fired(store, scheduled("0 3 * * *", "all")) == []
    clock.advance(DAY)
    assert fired(store, scheduled("0 3 * * *", "all")) == ["03:00"]


def test_old_and_new_workers_beside_each_other_share_the_slots_that_both_have(
    store: duly.Store, clock: HandClock
) -> None:
    old, new = scheduled("*/10 * * * *", "all"), scheduled("*/5 * * * *", "all")
    fired(store, old)
    fired(store, new)
    for _ in range(4):
        clock.advance(5 * MINUTE)
        fired(store, new)
        fired(store, old)
    assert enqueued(store) == [f"2026-01-01T00:{minute:02}:00+00:00" for minute in (5, 10, 15, 20)]


def test_a_removed_entry_fires_nothing_more(app: duly.Duly, clock: HandClock) -> None:
    app.cron("* * * * *", name="report")(report)
    app.work()
    clock.advance(MINUTE)
    app.schedules = Schedules()  # the next deploy
    assert app.work().done == 0
    assert enqueued(app.store) == []


def test_a_clock_that_is_set_back_fires_no_slot_again(store: duly.Store, clock: HandClock) -> None:
    hourly = scheduled("0 * * * *", "all")
    fired(store, hourly)
    clock.advance(2 * HOUR)
    assert fired(store, hourly) == ["01:00", "02:00"]
    clock.advance(-HOUR - MINUTE)
    assert fired(store, hourly) == []
    clock.advance(2 * HOUR + MINUTE)
    assert fired(store, hourly) == ["03:00"]


# Many workers, and what may happen to them


async def test_workers_that_look_at_the_same_moment_enqueue_each_slot_once(
    url: str, clock: HandClock
) -> None:
    store, each = duly.store(url, clock=clock), scheduled("*/10 * * * *", "all")
    for _ in range(4):
        await asyncio.gather(
            *(store.awaited.run(lambda one: fire(one, each, registry()), wait=WAIT)
              for _ in range(6))
        )  # fmt: skip
        clock.advance(HOUR)
    assert len(enqueued(store)) == len(set(enqueued(store))) == 18
    await store.aclose()


class Around:
    """A session that answers the first question as it was before, or breaks at a statement."""

    def __init__(self, session: Session, *, seen: Sequence[Row] = (), breaks: int = -1) -> None:
        self._session, self._seen, self._left = session, seen, breaks
        self.dialect = session.dialect

    async def rows(self, statement: str, **values: Value) -> Sequence[Row]:
        if self._left == 0:
            raise ConnectionAbortedError("here")
        self._left -= 1
        if statement == SCHEDULES_READ and self._seen:
            return self._seen
        return await self._session.rows(statement, **values)


def fired_around(store: duly.Store, schedule: Schedule, **how: Any) -> object:
    """What a worker does whose answers are late, or whose connection breaks."""

    async def tried(session: Session) -> object:
        return await fire(Around(session, **how), schedule, registry())  # type: ignore[arg-type]

    return finish(store.blocking.run(tried, wait=WAIT))


def rows_now(store: duly.Store) -> Sequence[Row]:
    async def asked(session: Session) -> Sequence[Row]:
        return await session.rows(SCHEDULES_READ)

    return finish(store.blocking.run_single(asked, wait=WAIT))


def test_a_worker_that_looked_before_another_moved_on_enqueues_nothing(
    store: duly.Store, clock: HandClock
) -> None:
    minutely = scheduled("* * * * *", "all")
    clock.advance(MINUTE)
    unknown = rows_now(store)
    clock.advance(-MINUTE)
    assert fired(store, minutely) == []
    assert fired_around(store, minutely, seen=unknown) is None
    clock.advance(MINUTE)
    behind = rows_now(store)
    assert fired(store, minutely) == ["00:01"], "who comes second does not say when it begins"
    assert fired_around(store, minutely, seen=behind) is None
    assert enqueued(store) == ["2026-01-01T00:01:00+00:00"]


def test_a_worker_that_dies_at_any_statement_leaves_the_slots_to_the_next(
    store: duly.Store, clock: HandClock
) -> None:
    each = scheduled("*/30 * * * *", "all")
    fired(store, each)
    for statement in count():
        clock.advance(HOUR)
        before = rows_now(store)[0]["slot"], enqueued(store)
        try:
            fired_around(store, each, breaks=statement)
        except ConnectionAbortedError:
            assert (rows_now(store)[0]["slot"], enqueued(store)) == before
            assert len(fired(store, each)) == 2
        else:
            break
    assert statement == 6  # the look, the step, and two for each job
    assert len(set(enqueued(store))) == len(enqueued(store)) == 14


def test_a_slot_whose_schedule_was_lost_is_still_known(store: duly.Store, clock: HandClock) -> None:
    hourly = scheduled("0 * * * *", "all")
    fired(store, hourly)
    clock.advance(HOUR)
    fired(store, hourly)
    done(store, "DELETE FROM duly_schedules")
    clock.advance(-HOUR)
    fired(store, hourly)
    clock.advance(2 * HOUR)
    assert fired(store, hourly) == ["01:00", "02:00"]
    assert len(enqueued(store)) == 2


def test_one_schedule_that_cannot_be_written_does_not_keep_the_others_waiting(
    app: duly.Duly, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    app.cron("* * * * *", name="lost")(report)
    app.cron("* * * * *", name="kept", queue="later")(report)
    app.work()
    clock.advance(MINUTE)
    del app.jobs.plain["lost"]
    app.work()
    assert enqueued(app.store) == ["2026-01-01T00:01:00+00:00"]
    assert "job lost could not be scheduled now" in caplog.text
