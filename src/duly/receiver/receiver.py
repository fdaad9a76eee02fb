"""The receiver of one process: verify a delivery, commit its events, answer; sync and async.

Both modes use the same parts. They differ in where a delivery waits for its commit: in the commit
queue of the event loop, or in that of the threads.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from functools import partial
from time import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from duly.inbox.new_event import Status, build_planned_event
from duly.outbox.relay_liveness import RelayLiveness
from duly.receiver.group_commit import GroupCommit
from duly.receiver.group_commit_threads import ThreadGroupCommit
from duly.receiver.inline import InlineCommit
from duly.receiver.metrics import Metrics
from duly.receiver.pipeline import acknowledge_delivery, reply_to_failure, verify_request
from duly.receiver.readiness import Readiness
from duly.receiver.rejections import Rejections
from duly.receiver.responses import Fault, Reply, RequestRefused, refusal_reply

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence
    from datetime import timedelta

    from duly.core.clock import Clock
    from duly.core.functions import Mode
    from duly.core.session import Runner, WorkKind
    from duly.inbox.new_event import EventOutcome, NewEvent
    from duly.inbox.route import Route
    from duly.receiver.group_commit import CallbackTicket, Result
    from duly.receiver.inline import OrmOpener
    from duly.receiver.request import Request, WholeRequest
    from duly.webhooks.source import Source

logger = logging.getLogger("duly")
# A body larger than this, or compressed, is verified on a thread: it would hold up the event loop.
LARGE = 128 * 1024
# What a commit may have written that someone waits for.
JOBS: Final[tuple[WorkKind, ...]] = ("jobs",)
INLINE_WORK: Final[tuple[WorkKind, ...]] = ("jobs", "messages")
# What is left for everything else when all inline handlers that may run are running.
SPARE = 4


class Database(NamedTuple):
    """Where deliveries are written: the store, sync and async, and the user's ORM if any."""

    sync_runner: Runner
    async_runner: Runner
    begin: OrmOpener | None
    # Gives back the connections of the event loop that runs it.
    release: Callable[[], Coroutine[Any, Any, None]]
    # How many connections the store may open, sync and async each.
    connections: int


class Receiver:
    """Turns a request that was read into its answer."""

    def __init__(  # noqa: PLR0913  # the app hands over each by name
        self,
        database: Database,
        *,
        clock: Clock | None,
        deadline: timedelta,
        queue: int,
        on_new_work: Callable[[Iterable[WorkKind]], None] = lambda _: None,
        sources: Callable[[], Iterable[Source]] = tuple,
        attendance: RelayLiveness | None = None,
        counters_pause: float | None = None,
    ) -> None:
        # Called after a commit that holds jobs: a worker of this process need not look for them.
        self._on_new_work = on_new_work
        # The event loop that is about to call it.
        self._notifying: asyncio.AbstractEventLoop | None = None
        self._sync_runner = database.sync_runner
        self._async_runner = database.async_runner
        self._release = database.release
        # Seconds since 1970: the time by which deliveries are verified.
        self.now: Callable[[], float] = time if clock is None else lambda: clock().timestamp()
        self._queue = queue
        self._deadline = deadline.total_seconds()
        self._group_commits: dict[asyncio.AbstractEventLoop, GroupCommit] = {}
        self._thread_group_commit: ThreadGroupCommit | None = None
        self._process = 0
        self._tasks: set[asyncio.Task[Result]] = set()
        # Deliveries that wait for their commit and then for no task: their reply is called back.
        self.submitted = 0
        self._all_answered: asyncio.Event | None = None
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
            attendance or RelayLiveness(),
            counters_pause,
        )
        self.rejections = Rejections(sources)
        self.readiness = Readiness(database.sync_runner, database.async_runner, self._inline)

    def enter_loop(self) -> None:
        """Refuse the running event loop where the pool of ``begin=`` belongs to another one."""
        if self._begin is not None:
            self._begin.enter_loop()

    async def receive(
        self,
        route: Route,
        request: Request,
        body: bytes,
        pairs: Sequence[tuple[bytes, bytes]] = (),
    ) -> Reply:
        """Verify a delivery, commit its events and answer it.

        ``pairs`` are its headers by lower-case name, as ASGI has them, so that the plan of its
        source can be tried.
        """
        now, note = self.now(), self.rejections.note
        events: list[NewEvent] = []
        try:
            if planned := self._try_plan(route, request, body, pairs, now):
                events = [planned]
            elif len(body) > LARGE or request.encoding is not None:
                events = await asyncio.to_thread(verify_request, route, request, body, now, note)
            else:
                events = verify_request(route, request, body, now, note)
            if route.inline:
                mode = self._inline_mode(route)
                outcomes = await self._inline.receive(events, mode, route.registries)
            else:
                queue = self._group_commits.get(asyncio.get_running_loop())
                outcomes = await (queue or self.group_commit()).receive(events)
        except Exception as problem:
            reply = self._refuse_delivery(route, problem, events)
        else:
            reply = self._acknowledge(route, events, outcomes, now)
        self.metrics.flush_soon()
        return reply

    def _try_plan(
        self,
        route: Route,
        request: Request,
        body: bytes,
        pairs: Sequence[tuple[bytes, bytes]],
        now: float,
    ) -> NewEvent | None:
        """The record of a delivery that the plan of its source knows to be genuine."""
        if not route.is_fast or request.method != "POST" or request.encoding is not None:
            return None
        fields = dict(pairs)
        if not fields or len(fields) != len(pairs) or len(body) > LARGE:
            return None
        return build_planned_event(route, fields, body, request.remote, now)

    def submit(
        self, route: Route, whole: WholeRequest, body: bytes, on_reply: Callable[[Reply], None]
    ) -> None:
        """Verify a small delivery and queue its events; ``on_reply`` is called once, later.

        It is called by the commit that holds the events, on the running event loop.
        """
        now = self.now()
        loop = asyncio.get_running_loop()
        events: list[NewEvent] = []
        self.submitted += 1
        try:
            planned = build_planned_event(route, whole.fields, body, whole.remote, now)
            if planned is not None:
                events = [planned]
            else:
                note = self.rejections.note
                events = verify_request(route, whole.as_request(), body, now, note)
            queue = self._group_commits.get(loop) or self.group_commit()
            # No closure that names itself: the garbage collector would have to find each.
            queue.submit(events, partial(self._report, route, now, on_reply))
        except Exception as problem:
            loop.call_soon(self._report_failure, route, on_reply, events, problem)

    def _report(
        self,
        route: Route,
        now: float,
        on_reply: Callable[[Reply], None],
        ticket: CallbackTicket,
        result: Result,
    ) -> None:
        """Reply to a submitted delivery once it is known what became of its events."""
        if isinstance(result, Exception):
            self._report_failure(route, on_reply, ticket.events, result)
            return
        outcomes = [one for one in result if one is not None]
        if len(outcomes) < len(result):
            alone = self._receive_alone(ticket, result)
            task = asyncio.get_running_loop().create_task(alone)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(partial(self._report_task, route, now, on_reply, ticket))
            return
        try:
            reply = self._acknowledge(route, ticket.events, outcomes, now)
            self.metrics.flush_soon()
        except Exception:
            reply = failure_reply(route)
        self._reply(on_reply, reply)

    def _report_failure(
        self,
        route: Route,
        on_reply: Callable[[Reply], None],
        events: Sequence[NewEvent],
        problem: Exception,
    ) -> None:
        """Refuse a submitted delivery."""
        try:
            reply = self._refuse_delivery(route, problem, events)
            self.metrics.flush_soon()
        except Exception:
            reply = failure_reply(route)
        self._reply(on_reply, reply)

    def _reply(self, on_reply: Callable[[Reply], None], reply: Reply) -> None:
        """Hand over the answer of a submitted delivery, and count it out."""
        self.submitted -= 1
        if not self.submitted and self._all_answered is not None:
            self._all_answered.set()
        on_reply(reply)

    async def _wait_for_submitted(self) -> None:
        """Wait until every submitted delivery is answered: their deadlines bound that.

        Their senders may have gone, and the server's drain waits only for connections.
        """
        self._all_answered = asyncio.Event()
        with suppress(TimeoutError):  # of an event loop that is no more
            if self.submitted:
                await asyncio.wait_for(self._all_answered.wait(), self._deadline + 1)
        self._all_answered = None

    async def _receive_alone(
        self, ticket: CallbackTicket, outcomes: Sequence[EventOutcome | None]
    ) -> Result:
        """Receive alone what could not be received with its batch."""
        try:
            return await self.group_commit().complete(ticket, outcomes)
        except Exception as problem:
            return problem

    def _report_task(
        self,
        route: Route,
        now: float,
        on_reply: Callable[[Reply], None],
        ticket: CallbackTicket,
        task: asyncio.Task[Result],
    ) -> None:
        """Reply with what `_receive_alone` found, unless the event loop ends."""
        if not task.cancelled():
            self._report(route, now, on_reply, ticket, task.result())

    def receive_blocking(self, route: Route, request: Request, body: bytes) -> Reply:
        """The same on the calling thread."""
        now = self.now()
        events: list[NewEvent] = []
        try:
            events = verify_request(route, request, body, now, self.rejections.note)
            if route.inline:
                mode = self._inline_mode(route)
                outcomes = self._inline.receive_blocking(events, mode, route.registries)
            else:
                outcomes = self.thread_group_commit().receive(events)
        except Exception as problem:
            reply = self._refuse_delivery(route, problem, events)
        else:
            reply = self._acknowledge(route, events, outcomes, now)
        self.metrics.flush_soon_blocking()
        return reply

    def _acknowledge(
        self, route: Route, events: Sequence[NewEvent], outcomes: Sequence[EventOutcome], now: float
    ) -> Reply:
        """Count a committed delivery, wake the worker if it has jobs, and return the answer."""
        if self.readiness.refused:
            self.readiness.refused.pop(route.inline, None)
        self.metrics.count_delivery(route, events, outcomes, now)
        if route.inline:  # its handler does not say what it has enqueued and sent
            if any(outcome.status is Status.ACCEPTED for outcome in outcomes):
                self._on_new_work(INLINE_WORK)
        else:
            for event, outcome in zip(events, outcomes, strict=True):
                if event.jobs and outcome.status is Status.ACCEPTED:
                    self._notify_of_jobs()
                    break
        return acknowledge_delivery(route, events, outcomes)

    def _notify_of_jobs(self) -> None:
        """Report new jobs: in an event loop once for all deliveries that one commit answers."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # a thread of a WSGI server
            self._on_new_work(JOBS)
        else:
            if self._notifying is not loop:
                self._notifying = loop
                loop.call_soon(self._report_jobs)

    def _report_jobs(self) -> None:
        self._notifying = None
        self._on_new_work(JOBS)

    def _inline_mode(self, route: Route) -> Mode:
        """The mode of a source's transactions: its handlers' or, without any, that of begin=."""
        if len(route.handlers) or self._begin is None:
            return route.handlers.mode
        return "async" if self._begin.in_one_loop else "sync"

    def _refuse_delivery(
        self, route: Route, problem: Exception, events: Sequence[NewEvent]
    ) -> Reply:
        """Count a delivery that was not committed, and return its answer."""
        event = events[0].event_id if len(events) == 1 else None
        known = problem.reply if isinstance(problem, RequestRefused) else None
        reply = reply_to_failure(route, problem, event) if known is None else known
        if reply.said == Fault.STORE_UNAVAILABLE:
            self.readiness.note_refusal(problem, inline=route.inline)
        self.metrics.count_refusal(route, reply)
        return reply

    def group_commit(self) -> GroupCommit:
        """The group commit of the running event loop, made where there is none."""
        for ended in [one for one in self._group_commits if one.is_closed()]:
            del self._group_commits[ended]
        made = GroupCommit(self._async_runner, most=self._queue, deadline=self._deadline)
        return self._group_commits.setdefault(asyncio.get_running_loop(), made)

    def thread_group_commit(self) -> ThreadGroupCommit:
        """The group commit of this process's threads; a forked child has its own."""
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
        """The same, awaited; submitted deliveries are answered first."""
        await self._wait_for_submitted()
        await self.metrics.aclose()
        await asyncio.to_thread(self.rejections.close)
        await asyncio.to_thread(self._inline.close, self._release)


def failure_reply(route: Route) -> Reply:
    """The answer where duly itself failed, from inside of the ``except``; the log has the error."""
    logger.exception("a delivery to %s could not be answered", route.name)
    return refusal_reply(Fault.FAILED, "the receiver failed: send it again", {})
