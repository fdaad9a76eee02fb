"""Schedules: cron entries whose slots are the keys of the jobs that they enqueue.

There is no leader. Every worker looks; the one that moves a schedule on from the slot that it saw
enqueues what is due, in the same transaction. Times are whole microseconds since 1970.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Literal, NamedTuple
from zoneinfo import ZoneInfo

from duly.core.clock import MICROSECOND, from_microseconds, to_microseconds
from duly.core.errors import UsageError
from duly.core.extras import needs
from duly.core.validation import kind
from duly.jobs.enqueue import enqueue_many, job_scope
from duly.jobs.statements import SCHEDULES_ADVANCE, SCHEDULES_READ

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from duly.core.session import Session
    from duly.jobs.enqueue import NewJob
    from duly.jobs.registry import JobRegistry

Missed = Literal["latest", "skip", "all"]
# Where missed slots are skipped, one that is not yet so old is on time: a worker that starts, or a
# database that is away for a moment, costs no slot. The next one is always at least as far.
TOLERANCE = timedelta(minutes=1) // MICROSECOND
# What is enqueued at once after a long absence; the oldest are left out, and the log says so.
MOST = 1000
# A second net: for more than a month no slot is enqueued again, even if its schedule were lost.
WINDOW = timedelta(days=35)
EXPRESSION_LENGTH = 200
FIELDS = "minute, hour, day of month, month, day of week"
# Where the search for the most recent slots begins; four times as long wherever that is too short.
HOUR = timedelta(hours=1) // MICROSECOND
# Any day from which a schedule must come to a slot within the fifty years that cronsim looks ahead.
SOME_DAY = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a job is enqueued, and what happens to slots that no worker saw."""

    job: str
    expression: str
    zone: str
    missed: Missed

    @property
    def scope(self) -> str:
        """The namespace of its slots: the same for every expression that the job ever had."""
        return job_scope(self.job)

    @property
    def name(self) -> str:
        """Its name: a changed expression is a new schedule."""
        return f"{self.expression} {self.zone}"

    def slots(self, after: int, until: int) -> Iterator[int]:
        """Slots later than ``after`` and not later than ``until``, in order."""
        start = from_microseconds(after).astimezone(zone_of(self.zone))
        for moment in cron_slots(self.expression, start):
            slot = to_microseconds(moment)
            if slot > until:
                return
            if slot > after:  # in an hour that the clock shows twice, cronsim begins with the first
                yield slot
                after = slot

    def newest_slots(self, after: int, until: int, most: int) -> list[int]:
        """The most recent of these slots, found without walking all that came before."""
        if next(self.slots(after, until), None) is None:
            return []
        length = HOUR
        while True:
            start = max(after, until - length)
            found = deque(self.slots(start, until), maxlen=most)
            if len(found) == most or start == after:
                return list(found)
            length *= 4


class Schedules:
    """The schedules of an application, one for each job that has one."""

    def __init__(self) -> None:
        self._by_job: dict[str, Schedule] = {}

    def __iter__(self) -> Iterator[Schedule]:
        return iter(list(self._by_job.values()))

    def add(self, schedule: Schedule) -> None:
        """Add a schedule; its job is registered already."""
        known = self._by_job.setdefault(schedule.job, schedule)
        if known != schedule:
            raise UsageError(
                f"job {schedule.job} has the schedule {known.name} already: give this one name="
            )


class ScheduleState(NamedTuple):
    """The database's time, and the last slot of each schedule by scope and name."""

    now: int
    slots: Mapping[str, Mapping[str, int]]


class ScheduleStep(NamedTuple):
    """A step of a schedule: from the last slot to the next one, and the slots to enqueue."""

    before: int | None
    until: int
    slots: list[int]
    more: bool = False


def schedule_of(job: str, expression: object, zone: object, missed: object) -> Schedule:
    """Check a schedule; the message says what to write instead."""
    if not isinstance(missed, str) or missed not in ("latest", "skip", "all"):
        raise UsageError('missed must be "latest", "skip" or "all"')
    if not isinstance(zone, str):
        raise UsageError(f"tz must be the name of a time zone, 'Europe/Berlin', not {kind(zone)}")
    zone_of(zone)
    return Schedule(job, checked_expression(expression), zone, missed)  # type: ignore[arg-type]


def checked_expression(expression: object) -> str:
    """A cron expression that comes to a slot, with one space between its fields."""
    if not isinstance(expression, str) or len(expression) > EXPRESSION_LENGTH:
        said = kind(expression) if not isinstance(expression, str) else "a text of this length"
        raise UsageError(f"a cron expression is text such as '*/5 * * * *', not {said}")
    fields = expression.split()
    if len(fields) != 5:
        raise UsageError(
            f"a cron expression has five fields ({FIELDS}), and {expression!r} has {len(fields)}"
        )
    tidy = " ".join(fields)
    if next(cron_slots(tidy, SOME_DAY), None) is None:
        raise UsageError(
            f"the cron expression {tidy!r} never comes to a slot: there is no such day"
        )
    return tidy


def cron_slots(expression: str, start: datetime) -> Iterator[datetime]:
    """The slots after a start, as Debian's cron would have them."""
    with needs("cron", "cronsim"):
        from cronsim import CronSim, CronSimError
    try:
        return CronSim(expression, start)
    except CronSimError as problem:
        raise UsageError(f"{expression!r} is no cron expression: {problem}") from None


def zone_of(name: str) -> tzinfo:
    """A time zone by its name."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise UsageError(
            f"there is no time zone {name[:60]!r} here: use a name such as 'Europe/Berlin'; where "
            "the system knows no time zones, pip install tzdata"
        ) from None


async def read_state(session: Session) -> ScheduleState:
    """Read the database's time and the last slot of each schedule."""
    rows = await session.rows(SCHEDULES_READ)
    slots: dict[str, dict[str, int]] = {}
    for row in rows:
        if row["scope"] is not None:
            slots.setdefault(row["scope"], {})[row["name"]] = row["slot"]
    return ScheduleState(rows[0]["now"], slots)


def due_step(schedule: Schedule, known: ScheduleState) -> ScheduleStep | None:
    """The step that a schedule has to take now; None if nothing is due."""
    of_job = known.slots.get(schedule.scope, {})
    before = of_job.get(schedule.name)
    if before is None:  # it begins now: slots before it was known are not its own
        return ScheduleStep(None, known.now, [])
    # While the job had another expression, this one missed nothing.
    after = max(of_job.values())
    most = MOST + 1 if schedule.missed == "all" else 1
    slots = schedule.newest_slots(after, known.now, most)
    if not slots:
        return None
    until = slots[-1]
    if schedule.missed == "skip" and known.now - until >= TOLERANCE:
        return ScheduleStep(before, until, [])
    return ScheduleStep(before, until, slots[-MOST:], more=len(slots) > MOST)


async def fire(session: Session, schedule: Schedule, jobs: JobRegistry) -> ScheduleStep | None:
    """Move a schedule on and enqueue what is due, all of it or nothing.

    None where nothing is due, or another worker was first. It may be run again: it begins with
    what the database says.
    """
    step = due_step(schedule, await read_state(session))
    if step is None:
        return None
    moved = await session.rows(
        SCHEDULES_ADVANCE,
        scope=schedule.scope,
        name=schedule.name,
        slot=step.until,
        before=step.before,
    )
    if not moved:
        return None
    await enqueue_many(session, [new_job(jobs, schedule, slot) for slot in step.slots])
    return step


def new_job(jobs: JobRegistry, schedule: Schedule, slot: int) -> NewJob:
    """The job of a slot, under the slot's own key."""
    moment = from_microseconds(slot).isoformat()
    return jobs.new(schedule.job, {"slot": moment}, key=moment, window=WINDOW)
