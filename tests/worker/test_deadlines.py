"""Until when a job waits, and since when it is due: by one clock, whatever the host's says."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from time import time_ns
from typing import TYPE_CHECKING

import pytest

import duly
from duly.core import session
from duly.core.clock import MICROSECOND
from duly.worker.fetcher import SLACK
from tests.support.processes.leading import PATIENCE
from tests.worker.conftest import named
from tests.worker.subjects import cases

if TYPE_CHECKING:
    from tests.conftest import HandClock
    from tests.worker.subjects import Case, DatabaseOf, Hand

HOUR = timedelta(hours=1)
# When the lease of the one job ends whatever its worker says, in microseconds since 1970.
DEADLINE = {
    "sqlite": "SELECT deadline FROM duly_jobs",
    "postgres": "SELECT (extract(epoch FROM deadline) * 1000000)::bigint FROM duly_jobs",
}
DAY = 24 * 60 * 60 * 10**9
FIRST_OF_ALL = -(2**15)


@pytest.mark.promise("machines")
@pytest.mark.parametrize("days", [-2, 2])
@pytest.mark.parametrize("case", cases(["postgres"], ways=["leased"]), ids=named)
async def test_not_yet_is_counted_by_the_clock_of_the_database(
    case: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    """The host is days ahead of the database, or behind it."""

    async def waits(hand: Hand) -> duly.NotYet:
        until = timedelta(days=1) if hand.job.payload == "patient" else timedelta(microseconds=1)
        return duly.NotYet("not there", after=HOUR, until=until)

    async with case.open(place) as subject:
        subject.job(waits)
        patient = await subject.enqueue(payload="patient")
        impatient = await subject.enqueue(payload="impatient")
        monkeypatch.setattr(session, "time_ns", lambda: time_ns() + days * DAY)
        await subject.work()
        assert subject.records.counted(patient) == ("ready", 0, 0)
        assert subject.records.counted(impatient) == ("dead", 0, 0)


@pytest.mark.parametrize("case", cases(["sqlite", "postgres"], ["sync"], ["leased"]), ids=named)
async def test_a_job_that_waited_in_vain_waits_again_when_it_is_replayed(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async def waits(hand: Hand) -> duly.NotYet:
        return duly.NotYet("not there", after=HOUR, until=2 * HOUR)

    async with case.open(place, clock) as subject:
        subject.job(waits)
        id = await subject.enqueue()
        for _ in range(2):
            for _ in range(2):
                assert (await subject.work()).retried == 1
                clock.advance(HOUR)
            await subject.work()
            assert subject.records.counted(id) == ("dead", 0, 0)
            clock.advance(24 * HOUR)
            await asyncio.to_thread(subject.app.jobs.replay, id)


@pytest.mark.parametrize("case", cases(["sqlite", "postgres"], ["sync"], ["leased"]), ids=named)
@pytest.mark.parametrize("days", [-3, 3])
async def test_a_deadline_is_counted_from_when_the_job_was_first_due(
    case: Case, place: DatabaseOf, clock: HandClock, days: int
) -> None:
    """One that was meant for later has all its time then; one for a time that is past, from now."""

    async def waits(hand: Hand) -> duly.NotYet:
        return duly.NotYet("not there", after=HOUR, until=2 * HOUR)

    async with case.open(place, clock) as subject:
        subject.job(waits)
        id = await subject.enqueue(at=clock() + timedelta(days=days))
        clock.advance(timedelta(days=max(days, 0)))
        for _ in range(2):
            assert (await subject.work()).retried == 1
            clock.advance(HOUR)
        await subject.work()
        assert subject.records.counted(id) == ("dead", 0, 0)


async def test_the_most_urgent_job_of_a_time_before_1970_is_taken(
    woven: Case, place: DatabaseOf
) -> None:
    async def works(hand: Hand) -> None:
        await hand.write("worked")

    async with woven.open(place) as subject:
        subject.job(works)
        at = datetime(1969, 1, 1, tzinfo=UTC)
        await subject.enqueue(at=at, priority=FIRST_OF_ALL)
        worker = asyncio.ensure_future(subject.app.aio.work())
        done, _ = await asyncio.wait([worker], timeout=PATIENCE / 10)
        worker.cancel()
        await asyncio.wait([worker])
        assert done, "it sees something due, and does not take it"
        assert worker.result().done == 1
        assert subject.records.notes() == ["worked"]


@pytest.mark.parametrize("case", cases(["sqlite", "postgres"], ["sync"], ["leased"]), ids=named)
async def test_a_lease_leaves_time_to_be_held_and_settled_beside_the_longest_timeout(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    deadlines: list[int] = []

    async def look(hand: Hand) -> None:
        [(deadline,)] = hand.subject.records.place.rows(DEADLINE[case.kind])
        deadlines.append(deadline)

    async with case.open(place, clock) as subject:
        subject.job(look, timeout=HOUR)
        await subject.enqueue()
        await subject.work()
    taken = (clock() - datetime(1970, 1, 1, tzinfo=UTC)) // MICROSECOND
    [deadline] = deadlines
    assert deadline - taken >= HOUR // MICROSECOND + SLACK
