"""The receiving path of one process: judge, commit, answer; awaited and blocking.

Both colours do the same with the same parts. What differs is where a delivery waits for its
commit (a lane of the event loop, or of the threads) and how a handler of the other colour is run.
"""

from __future__ import annotations

import asyncio
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple

from duly._kernel.onestep import finish
from duly.edge.batch import Batcher
from duly.edge.bridge import LoopThread
from duly.edge.followers import Followers
from duly.edge.intake import arrivals_of
from duly.edge.judging import acknowledged, failed, judged, works_of
from duly.edge.replies import Refused, Reply
from duly.edge.reports import Reports
from duly.inbox.inline import receive_inline

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from datetime import timedelta

    from duly._kernel.clock import Clock
    from duly._kernel.session import Runner
    from duly.edge.intake import Delivery
    from duly.edge.requests import Request
    from duly.edge.routes import Route
    from duly.inbox.arrivals import Arrival, Outcome
    from duly.inbox.inline import Opener

logger = logging.getLogger("duly")
# A body larger than this is judged on a thread: parsing it would hold up the event loop.
LARGE = 128 * 1024
# Handlers that block, at the same time, in an application that is awaited.
HANDLER_THREADS = 8


class Database(NamedTuple):
    """Where deliveries are written: the store in both colours, and the user's ORM if any."""

    blocking: Runner
    awaited: Runner
    begin: Opener | None
    # Gives back the connections of the event loop that runs it.
    release: Callable[[], Coroutine[Any, Any, None]]


class Receiver:
    """Everything between a request that was read and its answer."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock | None,
        deadline: timedelta,
        queue: int,
    ) -> None:
        self._blocking = database.blocking
        self._awaited = database.awaited
        self._begin = database.begin
        self._release = database.release
        self._clock = clock
        self._queue = queue
        self._deadline = deadline.total_seconds()
        self._batchers: dict[asyncio.AbstractEventLoop, Batcher] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._batcher: Batcher | None = None
        self._followers: Followers | None = None
        self._process = 0
        self._threads: ThreadPoolExecutor | None = None
        self._loop_thread = LoopThread()
        self.reports = Reports(database.blocking, database.awaited)

    def now(self) -> float:
        """The time by which deliveries are judged."""
        return time() if self._clock is None else self._clock().timestamp()

    async def receive(self, route: Route, request: Request, body: bytes) -> Reply:
        """Judge a delivery and answer it after its commit."""
        now = self.now()
        if len(body) > LARGE:
            found = await asyncio.to_thread(judged, route, request, body, now)
        else:
            found = judged(route, request, body, now)
        if isinstance(found, Reply):
            self.reports.refused(route, found)
            return found
        try:
            arrivals = arrivals_of(found)
            outcomes = await self._commit(found, arrivals)
        except Refused as problem:
            return problem.reply
        except Exception as problem:
            return self._failed(route, problem)
        self.reports.awaited(found, arrivals, outcomes)
        return acknowledged(found, arrivals, outcomes)

    async def _commit(self, delivery: Delivery, arrivals: Sequence[Arrival]) -> list[Outcome]:
        if not delivery.route.inline:
            return await self.batcher().receive(arrivals)
        works = works_of(delivery, arrivals)
        if colour_of(delivery.route) == "async":
            return await receive_inline(self._begin or self._awaited, works)
        work = partial(receive_inline, self._begin or self._blocking, works)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._handler_threads(), lambda: finish(work()))

    def receive_blocking(self, route: Route, request: Request, body: bytes) -> Reply:
        """The same on the calling thread."""
        found = judged(route, request, body, self.now())
        if isinstance(found, Reply):
            self.reports.refused(route, found)
            return found
        try:
            arrivals = arrivals_of(found)
            outcomes = self._commit_blocking(found, arrivals)
        except Refused as problem:
            return problem.reply
        except Exception as problem:
            return self._failed(route, problem)
        self.reports.blocking(found, arrivals, outcomes)
        return acknowledged(found, arrivals, outcomes)

    def _commit_blocking(self, delivery: Delivery, arrivals: Sequence[Arrival]) -> list[Outcome]:
        if not delivery.route.inline:
            return self.followers().receive(arrivals)
        works = works_of(delivery, arrivals)
        if colour_of(delivery.route) == "async":
            return self._loop_thread.run(receive_inline(self._begin or self._awaited, works))
        return finish(receive_inline(self._begin or self._blocking, works))

    def _failed(self, route: Route, problem: Exception) -> Reply:
        reply = failed(route, problem)
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
        return self._batcher

    def followers(self) -> Followers:
        """The lane of this process's threads; a forked child has its own."""
        if self._followers is None or self._process != os.getpid():
            self._followers = Followers(self._blocking, most=self._queue, deadline=self._deadline)
            self._process = os.getpid()
        return self._followers

    def _handler_threads(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(HANDLER_THREADS, "duly-handler")
        return self._threads

    def close(self) -> None:
        """Write what is counted, and end the threads."""
        self.reports.flush_blocking()
        self._end_threads()

    async def aclose(self) -> None:
        """The same, awaited."""
        await self.reports.flush_awaited()
        await asyncio.to_thread(self._end_threads)

    def _end_threads(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None
        self._loop_thread.close(self._release)


def colour_of(route: Route) -> str:
    """The colour of an inline source's handlers, which is the same for all of them."""
    return next((handler.colour for handler in route.handlers.all()), "sync")
