"""Promises inside the user's transaction: who waits for whom, and what a rollback hands over."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duly import Duplicate, First
from duly.errors import InProgress
from tests.ledger.conformance.subjects import Case, JoinedSubject

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.conftest import HandClock
    from tests.stores.join.ways import Handle, Way

SHORT = timedelta(milliseconds=200)
LONG = timedelta(seconds=60)
# SQLite has one writer, so that nobody else can even ask while a transaction has written.
ONE_WRITER = "capability missing: concurrent_writers (SQLite has one write lock)"


@asynccontextmanager
async def two(case: Case, url: str, clock: HandClock) -> AsyncIterator[tuple[Any, Any]]:
    """Two connections of the same type at work at the same time."""
    async with case.open(url, clock) as subject:
        assert isinstance(subject, JoinedSubject)
        one, other = await subject.actors.many(2)
        yield one, other


@pytest.mark.promise("one first", "one transaction")
async def test_a_first_that_rolls_back_hands_over_to_the_one_who_waits(
    way_case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with two(way_case, url, clock) as (one, other):
        assert (await one.do(lambda handle: claimed(handle, scope))).first
        waiting = other.begin_to(lambda handle: claimed(handle, scope, wait=LONG))
        await one.do(lambda handle: handle.rollback())
        answer = await asyncio.wrap_future(waiting)
        await other.do(lambda handle: handle.commit())

    assert isinstance(answer, First)


async def test_a_first_that_commits_makes_the_one_who_waits_a_duplicate_with_its_result(
    way_case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with two(way_case, url, clock) as (one, other):
        assert await one.do(lambda handle: worked(handle, scope, {"charged": 5}))
        waiting = other.begin_to(lambda handle: claimed(handle, scope, wait=LONG))
        await one.do(lambda handle: handle.commit())
        answer = await asyncio.wrap_future(waiting)
        await other.do(lambda handle: handle.commit())

    assert isinstance(answer, Duplicate)
    assert answer.result == {"charged": 5}


async def test_a_bounded_wait_ends_in_held_and_the_transaction_lives_on(
    way_case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with two(way_case, url, clock) as (one, other):
        assert (await one.do(lambda handle: claimed(handle, scope))).first
        with pytest.raises(InProgress):
            await other.do(lambda handle: claimed(handle, scope, wait=SHORT))
        await one.do(lambda handle: handle.commit())
        again = await other.do(lambda handle: handle.dedup(scope, "evt_1"))
        await other.do(lambda handle: handle.commit())

    assert again.duplicate


async def test_a_bounded_wait_for_a_batch_claims_none_of_it(
    way_case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with two(way_case, url, clock) as (one, other):
        assert (await one.do(lambda handle: claimed(handle, scope))).first
        with pytest.raises(InProgress):
            await other.do(lambda handle: batch(handle, scope, wait=SHORT))
        await one.do(lambda handle: handle.rollback())
        answers = await other.do(lambda handle: handle.dedup_many(scope, ["a", "evt_1", "b"]))
        await other.do(lambda handle: handle.commit())

    assert all(answer.first for answer in answers)


async def test_duplicates_of_a_finished_event_never_block_one_another(
    way_case: Case, url: str, scope: str, clock: HandClock
) -> None:
    if way_case.kind == "sqlite":
        pytest.skip(ONE_WRITER)
    async with two(way_case, url, clock) as (one, other):
        await one.do(lambda handle: claimed(handle, scope))
        await one.do(lambda handle: handle.commit())
        assert (await one.do(lambda handle: claimed(handle, scope))).duplicate
        answer = await other.do(lambda handle: claimed(handle, scope, wait=SHORT))
        await one.do(lambda handle: handle.rollback())
        await other.do(lambda handle: handle.rollback())

    assert answer.duplicate


async def test_the_same_transaction_meets_its_own_claim_as_a_duplicate(
    way_case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with case_alone(way_case, url, clock) as one:
        assert (await one.do(lambda handle: claimed(handle, scope))).first
        assert (await one.do(lambda handle: handle.dedup(scope, "evt_1"))).duplicate
        await one.do(lambda handle: handle.rollback())
        assert (await one.do(lambda handle: claimed(handle, scope))).first
        await one.do(lambda handle: handle.rollback())


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
async def test_above_read_committed_a_lost_race_reaches_the_opener_as_40001(
    way_case: Case, url: str, scope: str, clock: HandClock, level: str
) -> None:
    if way_case.kind == "sqlite":
        pytest.skip("capability missing: isolation levels (SQLite is always serializable)")
    async with two(way_case, url, clock) as (one, other):
        await other.do(lambda handle: snapshot(handle, level, other.way))
        await one.do(lambda handle: claimed(handle, scope))
        await one.do(lambda handle: handle.commit())
        with pytest.raises(Exception, match="could not serialize") as raised:
            await other.do(lambda handle: handle.dedup(scope, "evt_1"))
        await other.do(lambda handle: handle.rollback())
        rerun = await other.do(lambda handle: claimed(handle, scope))
        await other.do(lambda handle: handle.rollback())

    assert getattr(raised.value, "sqlstate", None) == "40001"
    assert rerun.duplicate


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
async def test_above_read_committed_a_claim_in_the_snapshot_is_a_plain_duplicate(
    way_case: Case, url: str, scope: str, clock: HandClock, level: str
) -> None:
    if way_case.kind == "sqlite":
        pytest.skip("capability missing: isolation levels (SQLite is always serializable)")
    async with two(way_case, url, clock) as (one, other):
        await one.do(lambda handle: claimed(handle, scope))
        await one.do(lambda handle: handle.commit())
        await other.do(lambda handle: snapshot(handle, level, other.way))
        answer = await other.do(lambda handle: handle.dedup(scope, "evt_1"))
        await other.do(lambda handle: handle.commit())

    assert answer.duplicate


@asynccontextmanager
async def case_alone(case: Case, url: str, clock: HandClock) -> AsyncIterator[Any]:
    """One connection."""
    async with case.open(url, clock) as subject:
        yield await subject.actors.one()


async def claimed(handle: Handle, scope: str, **options: Any) -> First | Duplicate:
    """Begin, claim, and leave the transaction open; after an error it is rolled back."""
    await handle.begin()
    try:
        return await handle.dedup(scope, "evt_1", **options)
    except InProgress:
        await still_usable(handle)
        raise


async def batch(handle: Handle, scope: str, **options: Any) -> list[First | Duplicate]:
    """Begin, claim a batch, and leave the transaction open."""
    await handle.begin()
    return await handle.dedup_many(scope, ["a", "evt_1", "b"], **options)


async def worked(handle: Handle, scope: str, result: Any) -> bool:
    """Begin, take a turn, and leave the transaction open."""
    await handle.begin()
    async with handle.once(scope, "evt_1") as turn:
        turn.result = result
        first: bool = turn.first
        return first


async def still_usable(handle: Handle) -> None:
    """Run something harmless in the user's transaction."""
    await handle.fetch("SELECT 1 AS one")


async def snapshot(handle: Handle, level: str, way: Way) -> None:
    """Begin at an isolation level and take the snapshot."""
    if way.begins == "when told":
        await handle.begin()
    await handle.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
    await handle.fetch("SELECT 1 AS one")
