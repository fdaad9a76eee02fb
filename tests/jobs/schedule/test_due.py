"""Which slots are due: those since the last, as the policy says, and none from before."""

import logging
from datetime import timedelta

import pytest

import duly
from duly.core.defaults import WAIT
from duly.core.onestep import finish
from duly.jobs.schedule import MOST, Missed, Schedules, read_state
from tests.conftest import HandClock
from tests.jobs.schedule.slots import DAY, HOUR, MINUTE, enqueued, fired, report, scheduled
from tests.support.inboxes import found
from tests.support.processes.leading import until


def test_a_schedule_begins_when_it_is_first_seen(store: duly.types.Store, clock: HandClock) -> None:
    clock.advance(MINUTE / 2)
    assert fired(store, scheduled("* * * * *", "all")) == []
    clock.advance(MINUTE / 2 - timedelta(microseconds=1))
    assert fired(store, scheduled("* * * * *", "all")) == []
    clock.advance(timedelta(microseconds=1))
    assert fired(store, scheduled("* * * * *", "all")) == ["00:01"]
    assert fired(store, scheduled("* * * * *", "all")) == []


@pytest.mark.parametrize(
    ("missed", "slots"),
    [("latest", ["05:00"]), ("all", ["01:00", "02:00", "03:00", "04:00", "05:00"]), ("skip", [])],
)
def test_slots_that_nobody_was_there_for_are_treated_as_asked(
    store: duly.types.Store, clock: HandClock, missed: Missed, slots: list[str]
) -> None:
    hourly = scheduled("0 * * * *", missed)
    fired(store, hourly)
    clock.advance(5 * HOUR + MINUTE)
    assert fired(store, hourly) == slots
    clock.advance(HOUR - timedelta(microseconds=1))  # a minute later it would be too late for skip
    assert fired(store, hourly) == ["06:00"]
    assert len(enqueued(store)) == len(slots) + 1


def test_after_a_long_absence_the_latest_thousand_are_enqueued_and_the_log_says_so(
    app: duly.Duly, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    app.cron("* * * * *", missed="all", name="report", queue="later")(report)
    app.work(queues=["default"])
    clock.advance((MOST + 5) * MINUTE)

    def work() -> list[str] | None:
        """A server that is too busy to answer in time is asked again by the next look."""
        app.work(queues=["default"])
        return enqueued(app.store) or None

    slots = until(work)
    assert len(slots) == MOST
    assert slots[0] == "2026-01-01T00:06:00+00:00"
    [told] = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert "those before 2026-01-01T00:06:00+00:00 are left out" in told


def test_a_changed_expression_fires_no_slot_from_before_it_was_known(
    store: duly.types.Store, clock: HandClock
) -> None:
    fired(store, scheduled("0 3 * * *", "all"))
    clock.advance(14 * HOUR)
    assert fired(store, scheduled("0 3 * * *", "all")) == ["03:00"]
    assert fired(store, scheduled("0 9 * * *", "all")) == []
    assert fired(store, scheduled("0 9 * * *", "all", "Europe/Berlin")) == []
    clock.advance(DAY)
    assert fired(store, scheduled("0 9 * * *", "all")) == ["09:00"]


def test_an_expression_that_comes_back_has_missed_nothing_meanwhile(
    store: duly.types.Store, clock: HandClock
) -> None:
    fired(store, scheduled("0 3 * * *", "all"))
    clock.advance(4 * HOUR)
    fired(store, scheduled("0 3 * * *", "all"))
    fired(store, scheduled("0 9 * * *", "all"))
    clock.advance(10 * DAY + 10 * HOUR)
    fired(store, scheduled("0 9 * * *", "latest"))
    assert fired(store, scheduled("0 3 * * *", "all")) == []
    clock.advance(DAY)
    assert fired(store, scheduled("0 3 * * *", "all")) == ["03:00"]


def test_old_and_new_workers_beside_each_other_share_the_slots_that_both_have(
    store: duly.types.Store, clock: HandClock
) -> None:
    old, new = scheduled("*/10 * * * *", "all"), scheduled("*/5 * * * *", "all")
    fired(store, old)
    fired(store, new)
    for _ in range(4):
        clock.advance(5 * MINUTE)
        fired(store, new)
        fired(store, old)
    assert enqueued(store) == [f"2026-01-01T00:{minute:02}:00+00:00" for minute in (5, 10, 15, 20)]


def test_a_removed_entry_fires_nothing_more(app: duly.Duly, clock: HandClock) -> None:
    app.cron("* * * * *", name="report")(report)
    app.work()
    clock.advance(MINUTE)
    app.schedules = Schedules()  # the next deploy
    assert app.work().done == 0
    assert enqueued(app.store) == []


def test_a_clock_that_is_set_back_fires_no_slot_again(
    store: duly.types.Store, clock: HandClock
) -> None:
    hourly = scheduled("0 * * * *", "all")
    fired(store, hourly)
    clock.advance(2 * HOUR)
    assert fired(store, hourly) == ["01:00", "02:00"]
    clock.advance(-HOUR - MINUTE)
    assert fired(store, hourly) == []
    clock.advance(2 * HOUR + MINUTE)
    assert fired(store, hourly) == ["03:00"]


def test_the_time_that_counts_is_the_databases(own_postgres_url: str) -> None:
    with duly.store(own_postgres_url) as store:
        query = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        [(before,)] = found(store, query)
        told = finish(store.sync_runner.run_autocommit(read_state, wait=WAIT))
        [(after,)] = found(store, query)
    assert before <= told.now <= after
    assert told.slots == {}
