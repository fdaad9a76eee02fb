"""A key leads to one job for as long as it is known, and for as long as that job has work to do."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import duly
from tests.jobs.enqueue.desks import CASES, Case, Desk

if TYPE_CHECKING:
    from tests.conftest import HandClock

everywhere = pytest.mark.parametrize("case", CASES, ids=str)
INSTANT = timedelta(microseconds=1)
DAY = timedelta(days=1)
WEEK = timedelta(days=7)


def nothing() -> None:
    """A job that asks for nothing."""


@everywhere
def test_a_key_is_known_to_the_last_microsecond_of_its_window(
    case: Case, desk: Desk, clock: HandClock
) -> None:
    first = desk.enqueue("one", key="receipt-1")
    desk.complete()
    clock.advance(DAY - INSTANT)
    again = desk.enqueue("two", key="receipt-1")
    clock.advance(INSTANT)
    fresh = desk.enqueue("three", key="receipt-1")

    assert first.first
    assert again == duly.types.Enqueued(first.id, first=False)
    assert again.duplicate
    assert fresh.first
    assert fresh.id != first.id
    assert desk.jobs() == [(fresh.id, "ready")]


@everywhere
def test_a_window_of_ones_own_is_counted_from_the_first_enqueue(
    case: Case, desk: Desk, clock: HandClock
) -> None:
    hour = timedelta(hours=1)
    first = desk.enqueue(key=b"\0receipt", window=hour)
    desk.complete()
    clock.advance(hour - INSTANT)
    assert desk.enqueue(key=b"\0receipt", window=WEEK).id == first.id  # and renews nothing
    clock.advance(INSTANT)
    assert desk.enqueue(key=b"\0receipt").first


@everywhere
@pytest.mark.parametrize("state", ["ready", "leased"])
def test_after_the_window_a_job_that_has_work_to_do_still_has_its_key(
    case: Case, desk: Desk, clock: HandClock, state: str
) -> None:
    first = desk.enqueue(key="receipt-1")
    if state == "leased":
        desk.lease()
    clock.advance(WEEK)

    assert desk.enqueue(key="receipt-1") == duly.types.Enqueued(first.id, first=False)
    assert desk.jobs() == [(first.id, state)]


@everywhere
def test_pruning_what_is_over_does_not_let_a_second_job_start_beside_the_first(
    case: Case, desk: Desk, clock: HandClock
) -> None:
    first = desk.enqueue(key="receipt-1", delay=2 * WEEK)
    other = desk.enqueue(key="receipt-2")
    desk.complete()
    clock.advance(WEEK)
    while duly.prune(desk.app.store, limit=1000):
        pass

    assert desk.enqueue(key="receipt-1") == duly.types.Enqueued(first.id, first=False)
    fresh = desk.enqueue(key="receipt-2")
    assert fresh.first
    assert fresh.id != other.id


@everywhere
def test_a_dead_job_keeps_its_key_for_the_window_and_no_longer(
    case: Case, desk: Desk, clock: HandClock
) -> None:
    first = desk.enqueue(key="receipt-1")
    desk.change("UPDATE duly_jobs SET state = 'dead' WHERE name = '{name}'")
    clock.advance(DAY - INSTANT)
    assert desk.enqueue(key="receipt-1").id == first.id
    clock.advance(INSTANT)
    fresh = desk.enqueue(key="receipt-1")

    assert fresh.first
    assert sorted(desk.jobs()) == sorted([(first.id, "dead"), (fresh.id, "ready")])


@everywhere
def test_a_fresh_job_has_a_whole_window_of_its_own(
    case: Case, desk: Desk, clock: HandClock
) -> None:
    desk.enqueue(key="receipt-1")
    desk.complete()
    clock.advance(DAY)
    fresh = desk.enqueue(key="receipt-1")
    desk.complete()
    clock.advance(DAY - INSTANT)
    assert desk.enqueue(key="receipt-1") == duly.types.Enqueued(fresh.id, first=False)
    clock.advance(INSTANT)
    assert desk.enqueue(key="receipt-1").first


@everywhere
def test_keys_of_two_jobs_never_meet(case: Case, desk: Desk) -> None:
    other = f"{desk.name}-other"
    desk.app.job(name=other)(nothing)

    first = desk.enqueue(key="receipt-1")
    second = desk.call(desk.verbs.enqueue, other, key="receipt-1")

    assert first.first
    assert second.first
    assert first.id != second.id


@everywhere
def test_the_key_of_a_job_at_work_is_not_pruned(case: Case, desk: Desk, clock: HandClock) -> None:
    first = desk.enqueue(key="receipt-1")
    desk.lease()
    clock.advance(WEEK)
    while duly.prune(desk.app.store, limit=1000):
        pass

    assert desk.enqueue(key="receipt-1") == duly.types.Enqueued(first.id, first=False)
    assert desk.jobs() == [(first.id, "leased")]
