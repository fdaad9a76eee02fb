"""A cron expression is read as Debian's cron reads it, also when clocks are changed."""

import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import duly
from duly.core.clock import from_microseconds, to_microseconds
from duly.jobs.schedule import schedule_of
from tests.jobs.schedule.slots import DAY, report

# At 02:00 in Berlin, 01:00 UTC, the clock is set to 03:00; in October from 03:00 to 02:00.
SPRING = datetime(2026, 3, 29, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 25, tzinfo=UTC)


def slots(
    expression: str, start: datetime, length: timedelta = DAY, zone: str = "Europe/Berlin"
) -> list[str]:
    """The slots after a moment, in UTC."""
    schedule = schedule_of("report", expression, zone, "all")
    after, until = to_microseconds(start), to_microseconds(start + length)
    return [f"{from_microseconds(slot):%d. %H:%M}" for slot in schedule.slots(after, until)]


def test_a_fixed_time_that_spring_leaves_out_runs_right_after_the_change() -> None:
    assert slots("30 2 * * *", SPRING - DAY, 3 * DAY) == ["28. 01:30", "29. 01:00", "30. 00:30"]


def test_a_fixed_time_that_autumn_repeats_runs_once() -> None:
    assert slots("30 2 * * *", AUTUMN - DAY, 3 * DAY) == ["24. 00:30", "25. 00:30", "26. 01:30"]


def test_a_schedule_that_begins_in_the_repeated_hour_fires_no_slot_from_before() -> None:
    assert slots("30 2 * * *", AUTUMN + timedelta(minutes=70), 2 * DAY) == ["26. 01:30"]


@pytest.mark.parametrize("change", [SPRING, AUTUMN])
def test_an_entry_with_a_star_follows_the_time_that_passes(change: datetime) -> None:
    start = change - timedelta(minutes=1)
    passed = [f"{change:%d}. {hour:02}:{minute}" for hour in range(4) for minute in ("00", "30")]
    assert slots("*/30 * * * *", start, timedelta(hours=4)) == passed


def test_a_list_of_fixed_times_in_the_hour_left_out_runs_once() -> None:
    assert slots("0,20,40 2 * * *", SPRING, DAY / 2) == ["29. 01:00"]


@pytest.mark.parametrize("most", [1, 3, 1000])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("expression", ["* * * * *", "*/7 9-17 * * MON-FRI", "0 3 24 * *"])
def test_the_most_recent_slots_are_the_end_of_all_slots(
    expression: str, zone: str, most: int
) -> None:
    schedule = schedule_of("report", expression, zone, "all")
    until = to_microseconds(AUTUMN + DAY)
    for days in (0, 1, 4):
        after = until - timedelta(days=days) // timedelta(microseconds=1)
        every = list(schedule.slots(after, until))
        assert schedule.newest_slots(after, until, most) == every[-most:]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("* * * *", "has five fields (minute, hour, day of month, month, day of week)"),
        ("*/5 * * * * *", "'*/5 * * * * *' has 6"),
        ("@daily", "'@daily' has 1"),
        ("61 * * * *", "'61 * * * *' is no cron expression: Bad minute"),
        ("* * * * MOON", "Bad day-of-week"),
        ("*/0 * * * *", "Bad minute"),
        ("0 0 31 2 *", "Bad day-of-month"),
        ("0 0 */20 * 1L", "never comes to a slot"),
        (f"{'9' * 5000} * * * *", "is text such as '*/5 * * * *'"),
        (5, "is text such as '*/5 * * * *', not an int"),
    ],
)
def test_a_wrong_expression_is_refused_when_it_is_written(expression: Any, said: str) -> None:
    with pytest.raises(duly.errors.UsageError) as refused:
        duly.Duly("memory:").cron(expression)(report)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tz": "Europe/Atlantis"}, "no time zone 'Europe/Atlantis' here: use a name such as"),
        ({"tz": "../../etc/passwd"}, "no time zone"),
        ({"tz": "Europe"}, "no time zone"),
        ({"tz": ""}, "no time zone"),
        ({"tz": UTC}, "tz must be the name of a time zone"),
        ({"missed": "none"}, 'missed must be "latest", "skip" or "all"'),
        ({"missed": ["all"]}, "missed must be"),
        ({"attempts": 0}, "attempts"),
    ],
)
def test_a_wrong_option_is_refused_with_what_to_write(options: Any, said: str) -> None:
    app = duly.Duly("memory:")
    with pytest.raises(duly.errors.UsageError) as refused:
        app.cron("* * * * *", **options)(report)
    assert said in str(refused.value)
    assert list(app.schedules) == []


def test_a_scheduled_job_has_no_event_to_ask_for() -> None:
    with pytest.raises(duly.errors.UsageError, match="asks for event"):
        duly.Duly("memory:").cron("* * * * *")(about_event)


def test_a_second_schedule_for_a_job_is_refused_and_the_same_one_again_is_not() -> None:
    app = duly.Duly("memory:")
    assert app.cron("0 3  * * *")(report) is report
    app.cron("0 3 * * *")(report)
    with pytest.raises(
        duly.errors.UsageError, match=r"has the schedule 0 3 \* \* \* UTC already: .* name="
    ):
        app.cron("0 15 * * *")(report)
    app.cron("0 15 * * *", name="report again")(report)
    assert [schedule.job for schedule in app.schedules] == ["report", "report again"]


def test_without_cronsim_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cronsim", None)
    with pytest.raises(duly.errors.UsageError, match=r"cronsim must be installed .* '\.\[cron\]'"):
        duly.Duly("memory:").cron("* * * * *")(report)


def about_event(event: duly.Event) -> None:
    """Asks for what a schedule does not have."""
