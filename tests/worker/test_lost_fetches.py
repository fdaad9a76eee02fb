"""Jobs that a worker has leased and never heard of are given back at no cost, and then run."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duly.worker import heartbeat
from duly.worker.settings import WorkerSettings
from tests.support.proxies import Cut, proxy
from tests.worker.subjects import Case, DatabaseOf, cases, seen, working

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from duly.worker.worker import Worker
    from tests.worker.subjects import Hand, Subject

OVER_A_WIRE = cases(kinds=["postgres"], ways=["leased"])
IN_A_FILE = cases(kinds=["sqlite", "memory"], ways=["leased"])
HOUR = timedelta(hours=1)
# As a claim leaves it whose answer nobody hears.
TAKEN = (
    "UPDATE duly_jobs SET state = 'leased', waiting = 0, epoch = epoch + 1,"
    " token = randomblob(16), worker = (SELECT id FROM duly_workers),"
    " deadline = run_at + 3600000000 WHERE id = '{id}'"
)


class Running:
    """A handler that notes who ran, in which attempt, and how often it was lost before."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int, int]] = []

    async def __call__(self, hand: Hand) -> None:
        self.seen.append((hand.job.id, hand.job.attempt, hand.job.rescues))


@asynccontextmanager
async def beating(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Worker]:
    """A worker whose heart beats ten times a second, and that nobody takes for lost."""
    monkeypatch.setattr(heartbeat, "BEATS", 36_000)
    async with working(subject, lease=HOUR) as started:
        yield started


@pytest.mark.parametrize("case", OVER_A_WIRE, ids=lambda case: case.name)
async def test_jobs_whose_claim_was_committed_and_its_reply_lost_run_long_before_their_deadline(
    case: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = Running()
    with proxy(place.url) as wire:
        async with case.open(DatabaseOf(wire.url, place.looked_at)) as subject:
            subject.job(works)
            ids = [await subject.enqueue() for _ in range(3)]
            trap = wire.set(Cut.REPLY, "UPDATE 3")  # nothing else changes three rows at once
            async with beating(subject, monkeypatch):
                await seen(lambda: subject.records.states() == [])
            assert trap.sprung == 1
            assert sorted(works.seen) == sorted((id, 1, 0) for id in ids)
            assert all(subject.records.history(id) == [("work", "done", 1)] for id in ids)


@pytest.mark.parametrize("case", IN_A_FILE, ids=lambda case: case.name)
async def test_a_job_that_its_worker_has_leased_and_does_not_know_of_is_given_back_and_runs(
    case: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = Running()
    async with case.open(place) as subject:
        subject.job(works)
        id = await subject.enqueue(delay=HOUR)
        async with beating(subject, monkeypatch):
            await seen(lambda: len(subject.records.rows("SELECT id FROM duly_workers")) == 1)
            subject.records.run(TAKEN.format(id=id))
            await seen(lambda: subject.records.states() == [])
        assert works.seen == [(id, 1, 0)]
        assert subject.records.history(id) == [("work", "done", 1)]


@pytest.mark.parametrize("case", IN_A_FILE, ids=lambda case: case.name)
async def test_a_heartbeat_gives_back_only_what_the_one_before_had_not_known_either(
    case: Case, place: DatabaseOf
) -> None:
    """A claim may be committed and its answer on the way: its jobs are about to run."""
    async with case.open(place) as subject:
        subject.job(Running())
        id = await subject.enqueue(delay=HOUR)
        beats = subject.app.process.worker(WorkerSettings(lease=HOUR))._heartbeat
        try:
            await asyncio.to_thread(beats.announce)
            subject.records.run(TAKEN.format(id=id))
            await asyncio.to_thread(beats._beat_once)
            assert subject.records.states() == ["leased"]
            await asyncio.to_thread(beats._beat_once)
            assert subject.records.states() == ["ready"]
        finally:
            await asyncio.to_thread(beats.stop)
