"""A handler that blocks its event loop costs nobody a lease, and nobody else a timeout."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duly.worker import heartbeat
from tests.support.processes.leading import PATIENCE
from tests.worker.subjects import Case, seen, working

if TYPE_CHECKING:
    from tests.worker.subjects import DatabaseOf, Hand

LEASE = timedelta(seconds=1.5)
TIMEOUT = timedelta(milliseconds=200)
AWAITED = [
    Case("sqlite", "async", "leased"),
    Case("memory", "async", "leased"),
    Case("postgres", "async", "leased"),
    Case("postgres", "async", "tx"),
]


@pytest.fixture(autouse=True)
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many beats for each lease: a busy machine may forget the heart for a while."""
    monkeypatch.setattr(heartbeat, "BEATS", 15)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The heart waits less long for an event loop to do its part."""
    monkeypatch.setattr(heartbeat, "GRACE", 0.1)


@pytest.mark.parametrize("case", AWAITED, ids=lambda case: case.name)
async def test_a_handler_that_blocks_its_event_loop_keeps_its_lease_and_those_of_others(
    case: Case, place: DatabaseOf
) -> None:
    ran: list[Any] = []

    async def blocks(hand: Hand) -> None:
        ran.append(hand.job.payload)
        if hand.job.payload == "blocks":
            time.sleep(2 * LEASE.total_seconds())  # noqa: ASYNC251  # what it must not do
        else:
            await hand.pause(0.01)
        await hand.write(hand.job.payload)

    async with case.open(place) as subject:
        subject.job(blocks)
        ids = [await subject.enqueue(payload=what) for what in ("beside", "blocks", "after")]
        async with working(subject, lease=LEASE), working(subject, lease=LEASE):
            await seen(lambda: len(subject.records.rows("SELECT 1 FROM duly_history")) == 3)
        assert sorted(ran) == ["after", "beside", "blocks"]
        assert [subject.records.history(id) for id in ids] == [[("work", "done", 1)]] * 3
        assert subject.records.notes() == ["after", "beside", "blocks"]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("case", AWAITED, ids=lambda case: case.name)
async def test_a_hung_handler_is_timed_out_while_the_event_loop_is_blocked(
    case: Case, place: DatabaseOf
) -> None:
    started, gate = threading.Event(), threading.Event()
    found: list[str] = []

    async def blocks(hand: Hand) -> None:
        assert started.wait(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        look = "SELECT state FROM duly_jobs WHERE name = 'hangs' AND state = 'dead'"
        while not found and time.monotonic() < deadline:
            found.extend(state for (state,) in hand.subject.records.place.rows(look))
            time.sleep(0.02)  # noqa: ASYNC251  # what it must not do

    def hangs(job: Any) -> None:
        started.set()
        assert gate.wait(PATIENCE)

    async with case.open(place) as subject:
        subject.app.job(name="hangs", timeout=TIMEOUT)(hangs)
        subject.job(blocks)
        id = await subject.enqueue("hangs")
        other = await subject.enqueue()
        try:
            async with working(subject, lease=LEASE):
                await seen(lambda: bool(subject.records.history(other)))
        finally:
            gate.set()
        assert found == ["dead"]
        assert subject.records.counted(id) == ("dead", 1, 0)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("case", [*AWAITED, Case("sqlite", "async", "tx")], ids=lambda c: c.name)
async def test_a_handler_that_blocks_its_event_loop_beyond_its_timeout_counts_for_nothing(
    case: Case, place: DatabaseOf
) -> None:
    async def blocks(hand: Hand) -> None:
        if hand.tx is not None:
            await hand.write("late")
        deadline = time.monotonic() + PATIENCE
        look = f"SELECT state FROM duly_jobs WHERE id = '{hand.job.id}' AND state = 'dead'"
        while not hand.subject.records.place.rows(look):
            assert time.monotonic() < deadline, "nobody ended it"
            time.sleep(0.02)  # noqa: ASYNC251  # what it must not do

    async with case.open(place) as subject:
        subject.job(blocks, timeout=TIMEOUT)
        id = await subject.enqueue()
        async with working(subject, lease=LEASE):
            await seen(lambda: subject.records.present(id).state == "dead")
        row = subject.records.present(id)
        assert row[:3] == ("dead", 1, 0)
        assert row.error is not None
        assert row.error["type"] == "TimeoutError"
        assert subject.records.history(id) == []
        assert subject.records.notes() == []
