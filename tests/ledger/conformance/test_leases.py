"""Promises of a lease: only the newest holder counts, and a crash delays but never loses."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.errors import InProgress, LeaseLost, NotStorable
from tests.ledger.conformance.subjects import AwaitedStore, BlockingStore, Case, StoreSubject

if TYPE_CHECKING:
    from tests.conftest import HandClock

LEASE = timedelta(seconds=30)
MICROSECOND = timedelta(microseconds=1)
STORABLE: list[Any] = [None, False, 0, "", [], {}, 0.5, "\x00", "\ud800", {"a": [1, None]}, 2**70]


UNSTORABLE: list[Any] = [(1, 2), {1: 2}, float("nan"), 1j, b"", {1, 2}]


class Crash(Exception):
    """Stands for whatever stops a worker."""


@pytest.mark.parametrize("value", STORABLE, ids=repr)
async def test_results_come_back_as_themselves(
    store_case: Case, url: str, scope: str, clock: HandClock, value: Any
) -> None:
    async with store_case.open(url, clock) as subject:
        async with subject.leased(scope, "a", lease=LEASE) as turn:
            assert turn.first
            turn.result = value
        async with subject.leased(scope, "a", lease=LEASE) as turn:
            assert turn.duplicate
            assert turn.has_result
            assert turn.result == value
            assert type(turn.result) is type(value)


async def test_no_result_is_not_a_result_of_none(
    store_case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with store_case.open(url, clock) as subject:
        async with subject.leased(scope, "a", lease=LEASE):
            pass
        async with subject.leased(scope, "a", lease=LEASE) as turn:
            assert turn.duplicate
            assert not turn.has_result


@pytest.mark.parametrize("value", UNSTORABLE, ids=repr)
async def test_a_result_that_cannot_be_stored_is_refused_before_the_claim_is_marked(
    store_case: Case, url: str, scope: str, clock: HandClock, value: Any
) -> None:
    async with store_case.open(url, clock) as subject:
        with pytest.raises(NotStorable):
            async with subject.leased(scope, "a", lease=LEASE) as turn:
                turn.result = value
        async with subject.leased(scope, "a", lease=LEASE) as turn:
            assert turn.first


async def test_while_a_lease_lives_others_are_told_to_come_back_when_it_ends(
    store_case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with store_case.open(url, clock) as subject:
        async with subject.leased(scope, "a", lease=LEASE):
            clock.advance(timedelta(seconds=10))
            with pytest.raises(InProgress) as raised:
                async with subject.leased(scope, "a", lease=LEASE):
                    raise AssertionError("the lease was given twice")
            assert raised.value.retry_after == timedelta(seconds=20)
            with pytest.raises(InProgress):
                await subject.dedup(scope, "a")
            with pytest.raises(InProgress):
                await subject.dedup_many(scope, ["b", "a", "c"])
        assert (await subject.dedup(scope, "b")).first, "a held batch must claim nothing"
        assert (await subject.dedup(scope, "c")).first


@pytest.mark.promise("I8", "I10")
async def test_a_lease_that_runs_out_is_taken_over_and_the_late_holder_is_refused(
    store_case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with store_case.open(url, clock) as subject:
        with pytest.raises(LeaseLost):
            async with subject.leased(scope, "a", lease=LEASE) as late:
                clock.advance(LEASE - MICROSECOND)
                with pytest.raises(InProgress):
                    async with subject.leased(scope, "a", lease=LEASE):
                        raise AssertionError("a living lease was taken over")
                clock.advance(MICROSECOND)
                async with subject.leased(scope, "a", lease=LEASE) as newer:
                    assert newer.first
                    assert newer.epoch == late.epoch + 1
                    newer.result = "newer"
                    for refused in (late.renew, late.mark):
                        with pytest.raises(LeaseLost):
                            await refused()
                late.result = "late"
        async with subject.leased(scope, "a", lease=LEASE) as turn:
            assert turn.result == "newer"


@pytest.mark.promise("I8")
async def test_a_late_holder_that_fails_cannot_release_the_newer_lease(
    store_case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with store_case.open(url, clock) as subject:
        newer = subject.leased(scope, "a", lease=LEASE)
        with pytest.raises(Crash):
            async with subject.leased(scope, "a", lease=LEASE):
                clock.advance(LEASE)
                turn = await newer.__aenter__()
                raise Crash
        with pytest.raises(InProgress):
            await subject.dedup(scope, "a")
        turn.result = 1
        await newer.__aexit__(None, None, None)
        assert (await subject.dedup(scope, "a")).result == 1


async def test_a_holder_that_nobody_replaced_may_still_mark_after_its_lease(
    store_case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with store_case.open(url, clock) as subject:
        async with subject.leased(scope, "a", lease=LEASE) as turn:
            clock.advance(2 * LEASE)
            turn.result = "slow"
        assert (await subject.dedup(scope, "a")).result == "slow"


async def test_renewing_moves_the_end_of_the_lease(
    store_case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with (
        store_case.open(url, clock) as subject,
        subject.leased(scope, "a", lease=LEASE) as turn,
    ):
        clock.advance(timedelta(seconds=29))
        await turn.renew()
        clock.advance(timedelta(seconds=29))
        with pytest.raises(InProgress) as raised:
            await subject.dedup(scope, "a")
        assert raised.value.retry_after == timedelta(seconds=1)


STOPPERS = [Crash, SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit]


@pytest.mark.promise("I10", "I12")
@pytest.mark.parametrize("stopper", STOPPERS)
async def test_any_exception_at_all_gives_the_lease_back_and_epochs_go_on_growing(
    store_case: Case, url: str, scope: str, clock: HandClock, stopper: type[BaseException]
) -> None:
    async with store_case.open(url, clock) as subject:
        epochs = []
        for _ in range(3):
            with pytest.raises(stopper):
                async with subject.leased(scope, "a", lease=LEASE) as turn:
                    epochs.append(turn.epoch)
                    raise stopper
        assert (await subject.dedup(scope, "a")).first

    assert epochs == [1, 2, 3]


async def test_an_explicit_mark_ends_the_lease_at_once_and_leaving_marks_no_second_time(
    store_case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with store_case.open(url, clock) as subject:
        async with subject.leased(scope, "a", lease=LEASE) as turn:
            await turn.mark({"done": True})
            assert (await subject.dedup(scope, "a")).result == {"done": True}
        with pytest.raises(Crash):
            async with subject.leased(scope, "b", lease=LEASE) as turn:
                await turn.mark("kept")
                raise Crash
        assert (await subject.dedup(scope, "b")).result == "kept"


async def test_the_window_of_a_leased_claim_starts_when_it_is_marked(
    store_case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with store_case.open(url, clock) as subject:
        async with subject.leased(scope, "a", ttl=timedelta(hours=1), lease=LEASE):
            clock.advance(timedelta(minutes=59))
        clock.advance(timedelta(minutes=59))
        assert (await subject.dedup(scope, "a")).duplicate
        clock.advance(timedelta(minutes=1))
        assert (await subject.dedup(scope, "a")).first


async def test_fence_runs_work_once_and_gives_its_result_to_every_later_caller(
    store_case: Case, url: str, scope: str, clock: HandClock
) -> None:
    runs: list[int] = []

    def work() -> int:
        runs.append(1)
        return len(runs)

    async with store_case.open(url, clock) as subject:
        answers = [await fenced(subject, scope, "a", work) for _ in range(3)]

    assert answers == [1, 1, 1]
    assert runs == [1]


async def test_of_many_fences_at_once_one_runs(
    store_case: Case, url: str, scope: str, clock: HandClock
) -> None:
    runs: list[int] = []

    async def attempt(subject: StoreSubject) -> str:
        try:
            await fenced(subject, scope, "a", lambda: runs.append(1))
        except InProgress:
            return "held"
        return "answered"

    async with store_case.open(url, clock) as subject:
        counted = Counter(await asyncio.gather(*(attempt(subject) for _ in range(30))))

    assert runs == [1]
    assert counted["answered"] >= 1
    assert counted["answered"] + counted["held"] == 30


@pytest.mark.parametrize("stopper", STOPPERS)
async def test_a_fence_whose_work_fails_runs_it_again_for_the_next_caller(
    store_case: Case, url: str, scope: str, clock: HandClock, stopper: type[BaseException]
) -> None:
    def fail() -> None:
        raise stopper

    async with store_case.open(url, clock) as subject:
        with pytest.raises(stopper):
            await fenced(subject, scope, "a", fail)
        assert await fenced(subject, scope, "a", lambda: "second") == "second"


async def fenced(subject: StoreSubject, scope: str, key: str, work: Any) -> Any:
    """`fence` in the subject's colour."""
    match subject:
        case BlockingStore():
            return await subject.call(duly.fence, subject.store, scope, key, work)
        case AwaitedStore():

            async def awaited() -> Any:
                return work()

            return await duly.aio.fence(subject.store, scope, key, awaited)


async def test_a_claim_that_is_made_anew_keeps_nothing_of_the_result_before(
    store_case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with store_case.open(url, clock) as subject:
        async with subject.leased(scope, "a", ttl=timedelta(hours=1), lease=LEASE) as turn:
            await turn.mark("old")
        clock.advance(timedelta(hours=1))
        assert (await subject.dedup(scope, "a", ttl=timedelta(hours=1))).first
        again = await subject.dedup(scope, "a", ttl=timedelta(hours=1))
    assert (again.duplicate, again.has_result, again.result) == (True, False, None)
