"""What is counted is written apart, whole or not at all, and never fills memory or a table."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly.core.clock import to_microseconds
from duly.core.onestep import finish
from duly.inbox.accept import receive_many
from duly.inbox.counters import NOTES_FOR_EVENT, NOTES_KEPT, PendingCounters, flush
from tests.conftest import HandClock
from tests.support.inboxes import arrival, found

MINUTE = timedelta(minutes=1)


@pytest.fixture(params=["sqlite", "postgres", "memory"])
def store(request: pytest.FixtureRequest, clock: HandClock) -> Iterator[duly.types.Store]:
    """Every store, under a clock cranked by hand."""
    names = {"sqlite": "sqlite_url", "postgres": "own_postgres_url"}
    url = request.getfixturevalue(names[request.param]) if request.param in names else "memory:"
    with duly.store(url, clock=clock) as opened:
        yield opened


def counters(store: duly.types.Store) -> list[tuple[Any, ...]]:
    return found(store, "SELECT scope, name, n FROM duly_counters ORDER BY scope, name, bucket")


def notes(store: duly.types.Store) -> list[str]:
    query = "SELECT outcome FROM duly_deliveries ORDER BY outcome"
    return [outcome for (outcome,) in found(store, query)]


def counted(**counts: int) -> PendingCounters:
    tally = PendingCounters()
    for name, number in counts.items():
        for _ in range(number):
            tally.count("shop", name)
    return tally


def test_sums_of_one_minute_are_added_up_and_each_minute_has_its_own(
    store: duly.types.Store, clock: HandClock
) -> None:
    finish(flush(store.sync_runner, counted(accepted=3, duplicate=1)))
    clock.advance(MINUTE - timedelta(microseconds=1))
    finish(flush(store.sync_runner, counted(accepted=2)))
    assert counters(store) == [("shop", "accepted", 5), ("shop", "duplicate", 1)]
    clock.advance(timedelta(microseconds=1))
    finish(flush(store.sync_runner, counted(accepted=1)))
    assert counters(store) == [
        ("shop", "accepted", 5),
        ("shop", "accepted", 1),
        ("shop", "duplicate", 1),
    ]


async def test_sums_are_written_in_the_other_colour_too(store: duly.types.Store) -> None:
    await flush(store.async_runner, counted(accepted=3))
    assert counters(store) == [("shop", "accepted", 3)]
    await store.aclose()


def test_an_empty_tally_is_nothing_to_write_home_about() -> None:
    assert not PendingCounters()
    assert counted(accepted=1)


def test_a_copy_of_a_known_event_is_noted_at_the_time_it_came(
    store: duly.types.Store, clock: HandClock, scope: str
) -> None:
    first = arrival(scope, "evt_1", remote="192.0.2.1")
    finish(receive_many(store.sync_runner, [first]))
    tally = PendingCounters()
    at = to_microseconds(clock()) + 60_000_000
    tally.note(arrival(scope, "evt_1", remote="192.0.2.2", secret="new"), "duplicate", at)
    tally.note(arrival(scope, "unknown"), "duplicate", at)
    finish(flush(store.sync_runner, tally))
    [(event, *copy)] = found(store, "SELECT event, outcome, remote, secret FROM duly_deliveries")
    assert (str(event), *copy) == (first.id, "duplicate", "192.0.2.2", "new")
    [(event, *kept)] = found(store, "SELECT id, outcome, remote, secret FROM duly_events")
    assert (str(event), *kept) == (first.id, "accepted", "192.0.2.1", None)


def test_a_storm_of_copies_fills_neither_memory_nor_the_table(
    store: duly.types.Store, scope: str
) -> None:
    finish(receive_many(store.sync_runner, [arrival(scope, "evt_1")]))
    tally = PendingCounters()
    for _ in range(NOTES_KEPT + 100):
        tally.note(arrival(scope, "evt_1"), "duplicate", 0)
        tally.count(scope, "duplicate")
    assert len(tally.notes) == NOTES_KEPT
    finish(flush(store.sync_runner, tally))
    finish(flush(store.sync_runner, tally))
    assert len(notes(store)) == NOTES_FOR_EVENT
    assert counters(store) == [(scope, "duplicate", 2 * (NOTES_KEPT + 100))]


def test_what_could_not_be_written_is_added_back_oldest_notes_first(scope: str) -> None:
    kept, newer = PendingCounters(), PendingCounters()
    for number in range(NOTES_KEPT - 1):
        kept.note(arrival(scope, "evt_1"), f"kept {number}", 0)
    for number in range(3):
        newer.note(arrival(scope, "evt_1"), f"newer {number}", 0)
        newer.count("shop", "accepted")
    kept.count("shop", "accepted")
    newer.add(kept)
    assert newer.counts["shop", "accepted"] == 4
    assert [note.outcome for note in newer.notes[-2:]] == [f"kept {NOTES_KEPT - 2}", "newer 0"]
    assert len(newer.notes) == NOTES_KEPT


def test_a_flush_that_fails_has_written_nothing_and_can_be_done_again(
    store: duly.types.Store, scope: str
) -> None:
    finish(receive_many(store.sync_runner, [arrival(scope, "evt_1")]))
    tally = counted(accepted=2)
    tally.note(arrival(scope, "evt_1"), "duplicate", 0)
    outcome: Any = None  # the table refuses it, after the sums were written
    tally.notes.append(tally.notes[0]._replace(outcome=outcome))
    with pytest.raises(duly.errors.StoreUnavailable):
        finish(flush(store.sync_runner, tally))
    assert (counters(store), notes(store)) == ([], [])
    later = counted(accepted=1)
    later.add(tally)
    later.notes.pop()
    finish(flush(store.sync_runner, later))
    assert (counters(store), notes(store)) == ([("shop", "accepted", 3)], ["duplicate"])
