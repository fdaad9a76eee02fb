"""Schedules of one job, fired by hand, and the slots that came of it."""

import json
from datetime import timedelta

import duly
from duly.core.clock import from_microseconds
from duly.core.defaults import WAIT
from duly.core.onestep import finish
from duly.jobs.handlers import handler_of
from duly.jobs.job import Job
from duly.jobs.registry import JobRegistry
from duly.jobs.schedule import Missed, Schedule, fire, schedule_of
from tests.support.inboxes import found

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def report(job: Job) -> None:
    """Stands for the user's function."""


def registry() -> JobRegistry:
    jobs = JobRegistry()
    jobs.add(handler_of(report, "report"))
    return jobs


def scheduled(expression: str, missed: Missed = "latest", tz: str = "UTC") -> Schedule:
    return schedule_of("report", expression, tz, missed)


def fired(store: duly.types.Store, schedule: Schedule) -> list[str]:
    """The slots that one worker enqueues now, by their time of day."""
    step = finish(store.sync_runner.run(lambda one: fire(one, schedule, registry()), wait=WAIT))
    return [] if step is None else [f"{from_microseconds(slot):%H:%M}" for slot in step.slots]


def enqueued(store: duly.types.Store) -> list[str]:
    """The slots of all jobs there are, doubles included."""
    rows = found(store, "SELECT payload FROM duly_jobs")
    return sorted(json.loads(bytes(payload))["slot"] for (payload,) in rows)
