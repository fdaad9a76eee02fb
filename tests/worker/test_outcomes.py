"""How a job ends: done, tried again after an error, waiting for something else, or dead."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from tests.support.processes.leading import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import HandClock
    from tests.worker.subjects import Case, DatabaseOf, Hand

HOUR = timedelta(hours=1)


class Trouble(Exception):
    """Something that goes wrong in a handler."""


async def works(hand: Hand) -> None:
    """A handler that does its work."""
    await hand.write(str(hand.job.attempt))


async def fails(hand: Hand) -> None:
    """A handler that does half of its work, every time."""
    await hand.write(str(hand.job.attempt))
    raise Trouble(f"attempt {hand.job.attempt} of {hand.job.max_attempts}")


def answering(outcome: duly.Retry | duly.Dead | duly.NotYet, how: str) -> Callable[[Hand], Any]:
    """A handler that writes a row and then gives this answer."""

    async def answers(hand: Hand) -> object:
        await hand.write(str(hand.job.attempt))
        if how == "raised":
            raise outcome
        return outcome

    return answers


def kept(case: Case, *notes: str) -> list[str]:
    """What is left of the rows of runs that did not end well: none with a transaction."""
    return [] if case.way == "tx" else list(notes)


@pytest.mark.promise("I2", "I6")
async def test_a_job_that_is_done_leaves_the_table_and_is_remembered_in_the_history(
    case: Case, place: DatabaseOf
) -> None:
    seen: list[Any] = []

    async def work(hand: Hand) -> None:
        job = hand.job
        seen.append((job.id, job.name, job.payload, job.attempt, job.max_attempts, job.rescues))
        await hand.write("done")

    async with case.open(place) as subject:
        subject.job(work)
        id = await subject.enqueue(payload={"order": [7, None, "ä"]})
        worked = await subject.work()
        assert (worked.done, worked.retried, worked.dead, worked.lost) == (1, 0, 0, 0)
        assert seen == [(id, "work", {"order": [7, None, "ä"]}, 1, 1, 0)]
        assert subject.records.job(id) is None
        assert subject.records.history(id) == [("work", "done", 1)]
        [(lasted,)] = subject.records.rows("SELECT ended - started FROM duly_history")
        assert timedelta(0) <= span(lasted) < timedelta(seconds=PATIENCE)
        assert subject.records.notes() == ["done"]


def span(value: timedelta | int) -> timedelta:
    """A length of time as either database says it."""
    return timedelta(microseconds=value) if isinstance(value, int) else value


async def test_a_plain_job_has_one_attempt_and_its_error_is_kept(
    case: Case, place: DatabaseOf
) -> None:
    async with case.open(place) as subject:
        subject.job(fails)
        id = await subject.enqueue()
        worked = await subject.work()
        assert (worked.done, worked.retried, worked.dead) == (0, 0, 1)
        row = subject.records.present(id)
        assert row[:3] == ("dead", 1, 0)
        assert (row.token, row.worker) == (None, None)
        assert row.error is not None
        assert row.error["message"] == "attempt 1 of 1"
        assert row.error["type"].endswith("Trouble")
        assert "in fails" in row.error["traceback"]
        assert subject.records.history(id) == []
        assert subject.records.notes() == kept(case, "1")


@pytest.mark.promise("I6", "I9")
async def test_a_job_that_fails_is_tried_again_later_each_time_and_then_dead(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    backoff = duly.Backoff(first=HOUR, factor=2, cap=10 * HOUR)
    async with case.open(place, clock) as subject:
        subject.job(fails, attempts=3, backoff=backoff)
        id = await subject.enqueue()
        for attempt, longest in ((1, HOUR), (2, 2 * HOUR)):
            assert (await subject.work()).retried == 1
            assert subject.records.counted(id) == ("ready", attempt, 0)
            idle = await subject.work()  # its time has not come
            assert (idle.done, idle.retried, idle.dead) == (0, 0, 0)
            clock.advance(longest)  # the wait is drawn from nothing up to this
        assert (await subject.work()).dead == 1
        row = subject.records.present(id)
        assert row[:3] == ("dead", 3, 0)
        assert row.error is not None
        assert (row.error["message"], row.error["attempt"]) == ("attempt 3 of 3", 3)
        assert subject.records.notes() == kept(case, "1", "2", "3")
        clock.advance(1000 * HOUR)
        assert (await subject.work()).done == 0
        assert subject.records.counted(id) == ("dead", 3, 0)


@pytest.mark.promise("I7")
async def test_a_retry_that_succeeds_is_done_with_the_attempts_it_took(
    case: Case, place: DatabaseOf
) -> None:
    async def second_time(hand: Hand) -> None:
        await hand.write(str(hand.job.attempt))
        if hand.job.attempt == 1:
            raise Trouble

    async with case.open(place) as subject:
        subject.job(second_time, attempts=5)
        id = await subject.enqueue()
        worked = await subject.work()
        assert (worked.done, worked.retried, worked.dead) == (1, 1, 0)
        assert subject.records.history(id) == [("work", "done", 2)]
        assert subject.records.notes() == [*kept(case, "1"), "2"]


@pytest.mark.parametrize("how", ["raised", "returned"])
async def test_an_answer_of_retry_waits_as_long_as_it_says_and_uses_up_an_attempt(
    case: Case, place: DatabaseOf, clock: HandClock, how: str
) -> None:
    retry = duly.Retry(after=HOUR, reason="the bank is closed")
    async with case.open(place, clock) as subject:
        subject.job(answering(retry, how), attempts=2)
        id = await subject.enqueue()
        assert (await subject.work()).retried == 1
        assert subject.records.counted(id) == ("ready", 1, 0)
        clock.advance(HOUR - timedelta(microseconds=1))
        assert (await subject.work()).dead == 0
        clock.advance(timedelta(microseconds=1))
        assert (await subject.work()).dead == 1
        row = subject.records.present(id)
        assert row[:3] == ("dead", 2, 0)
        assert row.error is not None
        assert row.error["message"] == "the bank is closed"
        assert subject.records.notes() == kept(case, "1", "2")


@pytest.mark.parametrize("how", ["raised", "returned"])
async def test_an_answer_of_dead_ends_the_job_whatever_attempts_are_left(
    case: Case, place: DatabaseOf, how: str
) -> None:
    async with case.open(place) as subject:
        subject.job(answering(duly.Dead("no such order"), how), attempts=5)
        id = await subject.enqueue()
        worked = await subject.work()
        assert (worked.retried, worked.dead) == (0, 1)
        row = subject.records.present(id)
        assert row[:3] == ("dead", 1, 0)
        assert row.error is not None
        assert row.error["message"] == "no such order"
        assert subject.records.notes() == kept(case, "1")


@pytest.mark.parametrize("how", ["raised", "returned"])
async def test_an_answer_of_not_yet_uses_up_no_attempt_and_is_dead_at_its_deadline(
    case: Case, place: DatabaseOf, clock: HandClock, how: str
) -> None:
    patience = duly.NotYet("no stock", after=HOUR, until=3 * HOUR)
    async with case.open(place, clock) as subject:
        subject.job(answering(patience, how))  # a single attempt, and yet it looks three times
        id = await subject.enqueue()
        for _ in range(3):
            worked = await subject.work()
            assert (worked.retried, worked.dead) == (1, 0)
            assert subject.records.counted(id) == ("ready", 0, 0)
            clock.advance(HOUR)
        assert (await subject.work()).dead == 1
        row = subject.records.present(id)
        assert row[:3] == ("dead", 0, 0)
        assert row.error is not None
        assert "no stock" in row.error["message"]
        assert subject.records.notes() == kept(case, "1", "1", "1", "1")


async def test_what_was_waited_for_comes_and_the_job_is_done_in_its_first_attempt(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    stock: list[str] = []

    async def sell(hand: Hand) -> object:
        if not stock:
            return duly.NotYet(until=clock() + 2 * HOUR)
        await works(hand)
        return None

    async with woven.open(place, clock) as subject:
        subject.job(sell)
        id = await subject.enqueue()
        assert (await subject.work()).retried == 1
        stock.append("one")
        clock.advance(timedelta(seconds=30))
        assert (await subject.work()).done == 1
        assert subject.records.history(id) == [("work", "done", 1)]


@pytest.mark.promise("I6")
@pytest.mark.parametrize(
    "problem",
    [
        SystemExit(1),
        asyncio.CancelledError(),
        duly.errors.InProgress("busy"),
        duly.errors.LeaseLost("another's"),
        StopIteration(),
    ],
    ids=lambda problem: type(problem).__name__,
)
async def test_whatever_a_handler_raises_uses_up_an_attempt_and_ends_no_worker(
    woven: Case, place: DatabaseOf, problem: BaseException
) -> None:
    async def raises(hand: Hand) -> None:
        raise problem

    async with woven.open(place) as subject:
        subject.job(raises, attempts=2)
        subject.job(works, name="neighbour")
        id, other = await subject.enqueue(), await subject.enqueue("neighbour")
        worked = await subject.work()
        assert (worked.done, worked.retried, worked.dead) == (1, 1, 1)
        assert subject.records.counted(id) == ("dead", 2, 0)
        assert subject.records.history(other) == [("neighbour", "done", 1)]
