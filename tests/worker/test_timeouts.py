"""A handler that hangs is ended by its timeout, its lock is given back, and nothing of it stays."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.support.processes.leading import PATIENCE
from tests.worker.subjects import cases, seen, working

if TYPE_CHECKING:
    from tests.worker.subjects import Case, DatabaseOf, Hand, Subject

# Long enough for what does not hang, also on a busy machine.
TIMEOUT = timedelta(seconds=1)
LONGER = 2.8
AWAITED = cases(colours=["async"])
LEASES = "SELECT lease FROM duly_workers"


class Hanging:
    """A handler that writes a row and then hangs, until it is let go at the end of the test."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.ends: list[str] = []

    async def __call__(self, hand: Hand) -> None:
        if hand.job.payload == "neighbour":
            await hand.write("neighbour")
            return
        if hand.tx is not None:
            await hand.write("early")
        try:
            await self.hang(hand)
            if hand.tx is not None:
                await hand.write("late")
        except BaseException as problem:
            self.ends.append(type(problem).__name__)
            raise
        self.ends.append("went on")

    async def hang(self, hand: Hand) -> None:
        """As a call that gets no answer."""
        if hand.subject.case.colour == "sync":
            assert self.gate.wait(PATIENCE)
        else:
            await asyncio.sleep(PATIENCE)


class Stubborn(Hanging):
    """One that is awaited, and does not let itself be cancelled."""

    async def hang(self, hand: Hand) -> None:
        while not self.gate.is_set():
            try:
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                continue


def timed_out(subject: Subject, id: str) -> bool:
    """Whether the job is dead for having taken too long."""
    row = subject.records.present(id)
    assert row.error is not None
    assert row.error["type"] == "TimeoutError"
    assert "longer than its timeout of 0:00:01" in row.error["message"]
    return row[:3] == ("dead", 1, 0)


@pytest.mark.promise("I12")
async def test_a_handler_that_hangs_is_timed_out_and_its_late_writes_come_to_nothing(
    case: Case, place: DatabaseOf
) -> None:
    hanging = Hanging()
    async with case.open(place) as subject:
        subject.job(hanging, timeout=TIMEOUT)
        id = await subject.enqueue()
        try:
            worked = await subject.work()
            assert (worked.dead, worked.done, worked.lost) == (1, 0, 0)
            assert timed_out(subject, id)
            assert hanging.ends == [] if case.colour == "sync" else ["CancelledError"]
            # It still hangs, and keeps nobody from working.
            other = await subject.enqueue(payload="neighbour")
            assert (await subject.work()).done == 1
            assert subject.records.notes() == ["neighbour"]
        finally:
            hanging.gate.set()
        await seen(lambda: bool(hanging.ends))
        assert (hanging.ends == ["went on"]) == (case.colour == "sync" and case.way == "leased")
        assert timed_out(subject, id)
        assert subject.records.notes() == ["neighbour"]
        assert subject.records.history(id) == []
        assert subject.records.history(other) == [("work", "done", 1)]


class Slow(Hanging):
    """One that goes on by itself, a while after its time was over."""

    async def hang(self, hand: Hand) -> None:
        if hand.subject.case.colour == "sync":
            self.gate.wait(LONGER)
        else:
            await asyncio.sleep(LONGER)


@pytest.mark.promise("I12")
@pytest.mark.parametrize("case", cases(ways=["tx"]), ids=lambda case: case.name)
async def test_a_handler_that_returns_after_its_time_has_failed_and_has_no_effect(
    case: Case, place: DatabaseOf
) -> None:
    # On SQLite it holds the lock that the worker's look for rescued jobs waits for meanwhile.
    slow = Slow()
    async with case.open(place) as subject:
        subject.job(slow, timeout=TIMEOUT)
        id = await subject.enqueue()
        worked = await subject.work()
        assert (worked.dead, worked.done) == (1, 0)
        assert timed_out(subject, id)
        await seen(lambda: bool(slow.ends))
        assert subject.records.notes() == []


@pytest.mark.parametrize("case", AWAITED, ids=lambda case: case.name)
async def test_a_handler_that_refuses_to_be_cancelled_is_timed_out_and_keeps_no_lock(
    case: Case, place: DatabaseOf
) -> None:
    stubborn = Stubborn()
    async with case.open(place) as subject:
        subject.job(stubborn, timeout=TIMEOUT)
        id = await subject.enqueue()
        async with working(subject):
            try:
                await seen(lambda: subject.records.present(id).state == "dead")
                await subject.enqueue(payload="neighbour")
                await seen(lambda: subject.records.notes() == ["neighbour"])
            finally:
                stubborn.gate.set()
            await seen(lambda: bool(stubborn.ends))
        assert timed_out(subject, id)
        assert subject.records.notes() == ["neighbour"]


@pytest.mark.parametrize("case", cases(colours=["async"], ways=["tx"]), ids=lambda case: case.name)
async def test_a_worker_is_believed_for_as_long_as_a_transaction_may_keep_its_heart_from_beating(
    case: Case, place: DatabaseOf
) -> None:
    """SQLite has one writer: while a handler's transaction is open, no heartbeat is written."""
    lease, longest = timedelta(minutes=1), timedelta(seconds=7)
    async with case.open(place) as subject:
        subject.job(Hanging(), timeout=longest)
        subject.job(Hanging(), "shorter", timeout=TIMEOUT)
        subject.app.job(name="leased", timeout=timedelta(hours=1))(nothing)
        async with working(subject, lease=lease):
            await seen(lambda: len(subject.records.rows(LEASES)) == 1)
            [(believed,)] = subject.records.rows(LEASES)
    assert timedelta(microseconds=believed) == (lease + longest if case.locks else lease)


def nothing() -> None:
    """A job without a transaction, which keeps nobody from writing."""
