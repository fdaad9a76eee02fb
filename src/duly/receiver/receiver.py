"""The receiving path of one process: judge, commit, answer; awaited and blocking.

Both colours do the same with the same parts. What differs is where a delivery waits for its
commit: a lane of the event loop, or of the threads.
"""

from __future__ import annotations

import asyncio
import os
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.inbox.new_event import Status
from duly.outbox.relay_liveness import Attendance
from duly.receiver.group_commit import Batcher
from duly.receiver.group_commit_threads import Followers
from duly.receiver.inline import InlineLane
from duly.receiver.metrics import Reports
from duly.receiver.pipeline import acknowledged, failed, prepared, works_of
from duly.receiver.readiness import Readiness
from duly.receiver.rejections import Rejections
from duly.receiver.responses import Fault, Refused, Reply

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence
    from datetime import timedelta

    from duly.core.clock import Clock
    from duly.core.functions import Colour
    from duly.core.session import Runner
    from duly.inbox.new_event import Arrival, Outcome
    from duly.inbox.route import Route
    from duly.receiver.inline import OrmOpener
    from duly.receiver.new_events import Delivery
    from duly.receiver.readiness import Lane
    from duly.receiver.request import Request
    from duly.webhooks.source import Source

# A body larger than this, or compressed, is judged on a thread: it would hold up the event loop.
LARGE = 128 * 1024
# What is left for everything else when all inline handlers that may run are running.
SPARE = 4


class Database(NamedTuple):
    """Where deliveries are written: the store in both colours, and the user's ORM if any."""

    blocking: Runner
    awaited: Runner
    begin: OrmOpener | None
    # Gives back the connections of the event loop that runs it.
    release: Callable[[], Coroutine[Any, Any, None]]
    # How many connections the store may open in each colour.
    connections: int


class Receiver:
    """Everything between a request that was read and its answer."""

    def __init__(  # noqa: PLR0913  # the app hands over each by name
        self,
        database: Database,
        *,
        clock: Clock | None,
        deadline: timedelta,
        queue: int,
        enqueued: Callable[[], None] = lambda: None,
        sources: Callable[[], Iterable[Source]] = tuple,
        attendance: Attendance | None = None,
    ) -> None:
        # Called after a commit that holds jobs: a worker of this process need not look for them.
        self._enqueued = enqueued
        self._blocking = database.blocking
        self._awaited = database.awaited
        self._release = database.release
        self._clock = clock
        self._queue = queue
        self._deadline = deadline.total_seconds()
        self._batchers: dict[asyncio.AbstractEventLoop, Batcher] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._batcher: Batcher | None = None
        self._followers: Followers | None = None
        self._process = 0
        self._begin = begin = database.begin
        self._inline = InlineLane(
            begin or database.blocking,
            begin or database.awaited,
            at_once=max(1, database.connections - SPARE),
            most=queue,
            deadline=self._deadline,
        )
        self.reports = Reports(database.blocking, database.awaited, attendance or Attendance())
        self.rejections = Rejections(sources)
        self.readiness = Readiness(database.blocking, database.awaited, self._inline)

    def enter_loop(self) -> None:
        """Refuse the running event loop where the pool of ``begin=`` belongs to another one."""
        if self._begin is not None:
            self._begin.enter_loop()

    def now(self) -> float:
        """The time by which deliveries are judged."""
        return time() if self._clock is None else self._clock().timestamp()

    async def receive(self, route: Route, request: Request, body: bytes) -> Reply:
        """Judge a delivery and answer it after its commit."""
        note = self.rejections.note
        arrivals: list[Arrival] = []
        try:
            if len(body) > LARGE or request.encoding is not None:
                found = await asyncio.to_thread(prepared, route, request, body, self.now(), note)
            else:
                found = prepared(route, request, body, self.now(), note)
            delivery, arrivals = found
            outcomes = await self._commit(delivery, arrivals)
        except Exception as problem:
            reply = self._refused(route, problem, arrivals)
            self.reports.flush_soon()
            return reply
        self.readiness.note_commit(lane_of(route))
        self.reports.awaited(delivery, arrivals, outcomes)
        if with_jobs(delivery, arrivals, outcomes):
            self._enqueued()
        return acknowledged(delivery, arrivals, outcomes)

    async def _commit(self, delivery: Delivery, arrivals: Sequence[Arrival]) -> list[Outcome]:
        if not delivery.route.inline:
            return await self.batcher().receive(arrivals)
        return await self._inline.receive(
            works_of(delivery, arrivals), self._inline_colour(delivery.route)
        )

    def receive_blocking(self, route: Route, request: Request, body: bytes) -> Reply:
        """The same on the calling thread."""
        arrivals: list[Arrival] = []
        try:
            delivery, arrivals = prepared(route, request, body, self.now(), self.rejections.note)
            outcomes = self._commit_blocking(delivery, arrivals)
        except Exception as problem:
            reply = self._refused(route, problem, arrivals)
            self.reports.flush_soon_blocking()
            return reply
        self.readiness.note_commit(lane_of(route))
        self.reports.blocking(delivery, arrivals, outcomes)
        if with_jobs(delivery, arrivals, outcomes):
            self._enqueued()
        return acknowledged(delivery, arrivals, outcomes)

    def _commit_blocking(self, delivery: Delivery, arrivals: Sequence[Arrival]) -> list[Outcome]:
        if not delivery.route.inline:
            return self.followers().receive(arrivals)
        return self._inline.receive_blocking(
            works_of(delivery, arrivals), self._inline_colour(delivery.route)
        )

    def _inline_colour(self, route: Route) -> Colour:
        """The colour of a source's transactions: its handlers' or, without any, that of begin=."""
        if len(route.handlers) or self._begin is None:
            return route.handlers.colour
        return "async" if self._begin.in_one_loop else "sync"

    def _refused(self, route: Route, problem: Exception, arrivals: Sequence[Arrival]) -> Reply:
        """What is answered, and counted, where a delivery was not taken."""
        event = arrivals[0].event_id if len(arrivals) == 1 else None
        known = problem.reply if isinstance(problem, Refused) else None
        reply = failed(route, problem, event) if known is None else known
        if reply.said == Fault.STORE_UNAVAILABLE:
            self.readiness.note_refusal(lane_of(route), problem)
        self.reports.refused(route, reply)
        return reply

    def batcher(self) -> Batcher:
        """The lane of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop or self._batcher is None:
            found = self._batchers.get(loop)
            if found is None:
                for ended in [one for one in self._batchers if one.is_closed()]:
                    del self._batchers[ended]
                found = Batcher(self._awaited, most=self._queue, deadline=self._deadline)
                self._batchers[loop] = found
            self._loop, self._batcher = loop, found
            return found
        return self._batcher

    def followers(self) -> Followers:
        """The lane of this process's threads; a forked child has its own."""
        if self._followers is None or self._process != os.getpid():
            self._followers = Followers(self._blocking, most=self._queue, deadline=self._deadline)
            self._process = os.getpid()
        return self._followers

    def close(self) -> None:
        """Write what is counted, and end the threads."""
        self.reports.close()
        self.rejections.close()
        self._inline.close(self._release)

    async def aclose(self) -> None:
        """The same, awaited."""
        await self.reports.aclose()
        await asyncio.to_thread(self.rejections.close)
        await asyncio.to_thread(self._inline.close, self._release)


def lane_of(route: Route) -> Lane:
    """Where the deliveries of a source wait for their commit."""
    return "inline" if route.inline else "deferred"


def with_jobs(delivery: Delivery, arrivals: Sequence[Arrival], outcomes: Sequence[Outcome]) -> bool:
    """Whether a commit may have enqueued anything; an inline handler says nothing of it."""
    inline = delivery.route.inline
    return any(
        (inline or arrival.jobs) and outcome.status is Status.ACCEPTED
        for arrival, outcome in zip(arrivals, outcomes, strict=True)
    )
