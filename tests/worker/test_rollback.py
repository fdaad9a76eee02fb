"""What a handler wrote in its transaction stays with the end of its job, or not at all."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.support.processes.leading import PATIENCE
from tests.worker.conftest import named
from tests.worker.subjects import cases, seen

if TYPE_CHECKING:
    from tests.conftest import HandClock
    from tests.worker.subjects import Case, DatabaseOf, Hand

OF_POSTGRES = pytest.mark.parametrize("case", cases(["postgres"], ways=["tx"]), ids=named)
LOCK = "SELECT pg_advisory_xact_lock(5021, :number)"
# What the server says to a transaction that read what another one changed.
CONFLICT = "DO $$ BEGIN RAISE EXCEPTION 'a conflict' USING ERRCODE = '40001'; END $$"
SEVERAL = "SELECT 1; INSERT INTO workings (job, note) VALUES ('', 'kept'); COMMIT; BEGIN"


async def test_several_statements_in_one_are_refused_so_that_none_of_them_commits(
    with_tx: Case, place: DatabaseOf
) -> None:
    refused: list[str] = []

    async def sly(hand: Hand) -> None:
        try:
            await hand.waited(hand.tx.execute(SEVERAL))
        except Exception as problem:
            refused.append(str(problem))
            raise

    async with with_tx.open(place) as subject:
        subject.job(sly)
        id = await subject.enqueue()
        await subject.work()
        assert len(refused) == 1
        assert subject.records.counted(id) == ("dead", 1, 0)
        assert subject.records.notes() == []


@pytest.mark.promise("I2", "I3")
@OF_POSTGRES
async def test_the_victim_of_a_deadlock_runs_again_though_it_had_one_attempt(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    locked = [threading.Event(), threading.Event()]

    async def crossing(hand: Hand) -> None:
        mine = hand.job.payload
        await hand.waited(hand.tx.execute("SET LOCAL deadlock_timeout = '20ms'"))
        await hand.waited(hand.tx.execute(LOCK, number=mine))
        locked[mine].set()
        await until_set(hand, locked[1 - mine])
        await hand.waited(hand.tx.execute(LOCK, number=1 - mine))
        await hand.write("crossed")

    async with case.open(place, clock) as subject:
        subject.job(crossing)
        ids = [await subject.enqueue(payload=number) for number in (0, 1)]
        await subject.work()
        [victim] = [id for id in ids if subject.records.job(id) is not None]
        assert subject.records.counted(victim) == ("ready", 0, 1)
        clock.advance(timedelta(minutes=5))
        assert (await subject.work()).done == 1
        assert subject.records.notes() == ["crossed", "crossed"]


@pytest.mark.parametrize("case", cases(["postgres"], ["sync"], ["tx"]), ids=named)
async def test_one_that_is_undone_again_and_again_is_dead_in_the_end(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async def undone(hand: Hand) -> None:
        await hand.waited(hand.tx.execute(CONFLICT))

    async with case.open(place, clock) as subject:
        subject.job(undone)
        id = await subject.enqueue()
        for _ in range(4):
            assert (await subject.work()).retried == 1
            clock.advance(timedelta(minutes=10))
        await subject.work()
        assert subject.records.counted(id) == ("dead", 0, 5)


async def until_set(hand: Hand, event: threading.Event) -> None:
    """Wait for the other one, as handlers of this colour do."""
    if hand.subject.case.colour == "async":
        await seen(event.is_set)
    else:
        assert event.wait(PATIENCE)
