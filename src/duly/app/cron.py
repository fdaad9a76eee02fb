"""The verb of `Duly` that is about schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from duly.core.retry import Backoff
from duly.jobs.handlers import JOB_ATTEMPTS, QUEUE, handler_of
from duly.jobs.schedule import schedule_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from duly.jobs.schedule import Missed, Schedules

Handling = TypeVar("Handling", bound="Callable[..., Any]")


class HasJobs(Protocol):
    """Who can make a function a job."""

    @property
    def schedules(self) -> Schedules:
        """When its jobs are enqueued."""

    def job(
        self,
        function: None = ...,
        /,
        *,
        name: str | None = ...,
        queue: str = ...,
        attempts: int = ...,
        timeout: timedelta | None = ...,
        backoff: Backoff = ...,
    ) -> Callable[[Handling], Handling]:
        """Make a function a job that can be enqueued."""


class CronVerbs:
    """What `Duly` does about schedules."""

    # When jobs are enqueued by themselves.
    schedules: Schedules

    def cron(
        self: HasJobs,
        expression: str,
        /,
        *,
        tz: str = "UTC",
        missed: Missed = "latest",
        name: str | None = None,
        queue: str = QUEUE,
        attempts: int = JOB_ATTEMPTS,
        timeout: timedelta | None = None,
        backoff: Backoff = Backoff(),  # noqa: B008  # it cannot be changed
    ) -> Callable[[Handling], Handling]:
        """Make a function a job that is enqueued once at each slot of a cron expression.

        Any number of workers may run: each slot leads to one job, whose payload is
        ``{"slot": "2026-11-16T06:15:00+00:00"}``, in UTC. Needs the extra ``cron``.

        A schedule begins when a worker first sees it, and so does one whose expression or time
        zone was changed. When clocks are changed it does as Debian's cron: an entry at a fixed time
        that the change leaves out runs right after it, and one that the change repeats runs once;
        an entry with ``*`` in its minutes or hours follows the time that passes.

        Args:
            expression: minute, hour, day of month, month, day of week: ``*/5 * * * *``.
            tz: the time zone in which the expression is read, such as ``Europe/Berlin``.
            missed: what to do about slots at which no worker ran: run only the ``latest`` of them,
                ``skip`` those older than a minute, or run ``all``, up to the latest thousand.
            name: as in `job`, like all that follow.
            queue: as in `job`.
            attempts: as in `job`.
            timeout: as in `job`.
            backoff: as in `job`.
        """

        def add(call: Handling) -> Handling:
            schedule = schedule_of(handler_of(call, name).name, expression, tz, missed)
            self.job(name=name, queue=queue, attempts=attempts, timeout=timeout, backoff=backoff)(
                call
            )
            self.schedules.add(schedule)
            return call

        return add
