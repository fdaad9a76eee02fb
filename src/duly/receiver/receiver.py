"""The receiving path of one process: judge, commit, answer; awaited and blocking.

Both colours do the same with the same parts. What differs is where a delivery waits for its
commit: a lane of the event loop, or of the threads.
"""

from __future__ import annotations

import asyncio
import os
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.core.host import HOST
from duly.inbox.new_event import Status
from duly.outbox.relay_liveness import RelayLiveness
from duly.receiver.group_commit import GroupCommit
from duly.receiver.group_commit_threads import ThreadGroupCommit
from duly.receiver.inline import InlineCommit
from duly.receiver.metrics import Metrics
from duly.receiver.pipeline import (
    acknowledge_delivery,
    prepare_delivery,
    reply_to_failure,
    works_of,
)
from duly.receiver.readiness import Readiness
from duly.receiver.rejections import Rejections
from duly.receiver.responses import Fault, Reply, RequestRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence
    from datetime import timedelta

    from duly.core.clock import Clock
    from duly.core.functions import Mode
    from duly.core.host import Host
    from duly.core.session import Runner
    from duly.inbox.new_event import EventOutcome, NewEvent
    from duly.inbox.route import Route
    from duly.receiver.inline import OrmOpener
    from duly.receiver.new_events import RoutedDelivery
    from duly.receiver.readiness import Lane
    from duly.receiver.request import Request
    from duly.webhooks.source import Source

# A body larger than this, or compressed, is judged on a thread: it would hold up the event loop.
LARGE = 128 * 1024
# What is left for everything else when all inline handlers that may run are running.
SPARE = 4


class Database(NamedTuple):
    """Where deliveries are written: the store in both colours, and the user's ORM if any."""

    sync_runner: Runner
    async_runner: Runner
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
        on_enqueued: Callable[[], None] = lambda: None,
        sources: Callable[[], Iterable[Source]] = tuple,
        attendance: RelayLiveness | None = None,
        host: Host = HOST,
        counters_pause: float | None = None,
    ) -> None:
        # Called after a commit that holds jobs: a worker of this process need not look for them.
        self._on_enqueued = on_enqueued
        self._sync_runner = database.sync_runner
        self._async_runner = database.async_runner
        self._release = database.release
        self._clock = clock
        self._host = host
        self._queue = queue
        self._deadline = deadline.total_seconds()
        self._group_commits: dict[asyncio.AbstractEventLoop, GroupCommit] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._group_commit: GroupCommit | None = None
        self._thread_group_commit: ThreadGroupCommit | None = None
        self._process = 0
        self._begin = begin = database.begin
        self._inline = InlineCommit(
            begin or database.sync_runner,
            begin or database.async_runner,
            at_once=max(1, database.connections - SPARE),
            most=queue,
            deadline=self._deadline,
        )
        self.metrics = Metrics(
            database.sync_runner,
            database.async_runner,
            attendance or RelayLiveness(host),
            counters_pause,
        )
        self.rejections = Rejections(sources)
        self.readiness = Readiness(database.sync_runner, database.async_runner, self._inline)

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
        arrivals: list[NewEvent] = []
        try:
            if len(body) > LARGE or request.encoding is not None:
                found = await asyncio.to_thread(
                    prepare_delivery, route, request, body, self.now(), note, self._host
                )
            else:
                found = prepare_delivery(route, request, body, self.now(), note, self._host)
            delivery, arrivals = found
            outcomes = await self._commit(delivery, arrivals)
        except Exception as problem:
            reply = self._refuse_delivery(route, problem, arrivals)
            self.metrics.flush_soon()
            return reply
        self.readiness.note_commit(lane_of(route))
        self.metrics.count_delivery(delivery, arrivals, outcomes)
        if may_have_enqueued(delivery, arrivals, outcomes):
            self._on_enqueued()
        return acknowledge_delivery(delivery, arrivals, outcomes)

    async def _commit(
        self, delivery: RoutedDelivery, arrivals: Sequence[NewEvent]
    ) -> list[EventOutcome]:
        if not delivery.route.inline:
            return await self.group_commit().receive(arrivals)
        return await self._inline.receive(
            works_of(delivery, arrivals), self._inline_mode(delivery.route)
        )

    def receive_blocking(self, route: Route, request: Request, body: bytes) -> Reply:
        """The same on the calling thread."""
        arrivals: list[NewEvent] = []
        try:
            delivery, arrivals = prepare_delivery(
                route, request, body, self.now(), self.rejections.note, self._host
            )
            outcomes = self._commit_blocking(delivery, arrivals)
        except Exception as problem:
            reply = self._refuse_delivery(route, problem, arrivals)
            self.metrics.flush_soon_blocking()
            return reply
        self.readiness.note_commit(lane_of(route))
        self.metrics.count_delivery_blocking(delivery, arrivals, outcomes)
        if may_have_enqueued(delivery, arrivals, outcomes):
            self._on_enqueued()
        return acknowledge_delivery(delivery, arrivals, outcomes)

    def _commit_blocking(
        self, delivery: RoutedDelivery, arrivals: Sequence[NewEvent]
    ) -> list[EventOutcome]:
        if not delivery.route.inline:
            return self.thread_group_commit().receive(arrivals)
        return self._inline.receive_blocking(
            works_of(delivery, arrivals), self._inline_mode(delivery.route)
        )

    def _inline_mode(self, route: Route) -> Mode:
        """The colour of a source's transactions: its handlers' or, without any, that of begin=."""
        if len(route.handlers) or self._begin is None:
            return route.handlers.mode
        return "async" if self._begin.in_one_loop else "sync"

    def _refuse_delivery(
        self, route: Route, problem: Exception, arrivals: Sequence[NewEvent]
    ) -> Reply:
        """What is answered, and counted, where a delivery was not taken."""
        event = arrivals[0].event_id if len(arrivals) == 1 else None
        known = problem.reply if isinstance(problem, RequestRefused) else None
        reply = reply_to_failure(route, problem, event) if known is None else known
        if reply.said == Fault.STORE_UNAVAILABLE:
            self.readiness.note_refusal(lane_of(route), problem)
        self.metrics.count_refusal(route, reply)
        return reply

    def group_commit(self) -> GroupCommit:
        """The lane of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop or self._group_commit is None:
            found = self._group_commits.get(loop)
            if found is None:
                for ended in [one for one in self._group_commits if one.is_closed()]:
                    del self._group_commits[ended]
                found = GroupCommit(self._async_runner, most=self._queue, deadline=self._deadline)
                self._group_commits[loop] = found
            self._loop, self._group_commit = loop, found
            return found
        return self._group_commit

    def thread_group_commit(self) -> ThreadGroupCommit:
        """The lane of this process's threads; a forked child has its own."""
        if self._thread_group_commit is None or self._process != os.getpid():
            self._thread_group_commit = ThreadGroupCommit(
                self._sync_runner, most=self._queue, deadline=self._deadline
            )
            self._process = os.getpid()
        return self._thread_group_commit

    def close(self) -> None:
        """Write what is counted, and end the threads."""
        self.metrics.close()
        self.rejections.close()
        self._inline.close(self._release)

    async def aclose(self) -> None:
        """The same, awaited."""
        await self.metrics.aclose()
        await asyncio.to_thread(self.rejections.close)
        await asyncio.to_thread(self._inline.close, self._release)


def lane_of(route: Route) -> Lane:
    """Where the deliveries of a source wait for their commit."""
    return "inline" if route.inline else "deferred"


def may_have_enqueued(
    delivery: RoutedDelivery, arrivals: Sequence[NewEvent], outcomes: Sequence[EventOutcome]
) -> bool:
    """Whether a commit may have enqueued anything; an inline handler says nothing of it."""
    inline = delivery.route.inline
    return any(
        (inline or arrival.jobs) and outcome.status is Status.ACCEPTED
        for arrival, outcome in zip(arrivals, outcomes, strict=True)
    )
