"""The verbs of `Duly` that are about jobs, for code that blocks and awaited."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, overload

from duly.app.checks import checked_until, loop_is_running, refuse_other_mode
from duly.app.cron import CronVerbs
from duly.app.relay import AsyncRelayVerbs, RelayVerbs
from duly.app.secrets import texts_to_hide
from duly.app.send import AsyncSendVerbs, SendVerbs
from duly.core.clock import MICROSECOND
from duly.core.errors import SyncAsyncMismatch, UsageError
from duly.core.host import HOST
from duly.core.retry import Backoff
from duly.core.validation import checked_count, checked_duration, kind
from duly.http_client.job_clients import JobClients
from duly.jobs.handlers import (
    JOB_ATTEMPTS,
    LOCKING_TIMEOUT,
    QUEUE,
    TIMEOUT,
    checked_queue,
    handler_of,
)
from duly.jobs.registry import Registry
from duly.jobs.schedule import Schedules
from duly.outbox.egress import Egress
from duly.service.wakeup import Wakeup
from duly.worker.dependencies import WorkerDependencies
from duly.worker.run_job import ExecutionContext
from duly.worker.settings import CONCURRENCY, GRACE, LEASE, worker_settings
from duly.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from duly.core.host import Host
    from duly.core.session import Runner
    from duly.jobs.handlers import Handler
    from duly.receiver.router import Router
    from duly.service.service_thread import Until
    from duly.stores.orm.begin import Begin, SameDatabase
    from duly.stores.store import Store
    from duly.worker.settings import WorkerSettings
    from duly.worker.stats import Worked

Handling = TypeVar("Handling", bound="Callable[..., Any]")
MOST_ATTEMPTS = 1000
LONGEST_TIMEOUT = timedelta(days=1)
# Connections that are left for taking, settling and effects while handlers have all the others.
SPARE = 2


class JobVerbs(SendVerbs, RelayVerbs, CronVerbs):
    """What `Duly` does about jobs."""

    store: Store
    site: Router
    _begin: Begin | None
    _opener: SameDatabase | None
    _connections: int
    # What its services take from the machine; the simulation has its own.
    _host: Host = HOST

    def _begin_jobs(self, egress: object) -> None:
        if not isinstance(egress, Egress):
            raise UsageError(f"egress must be a duly.Egress(…), not {kind(egress)}")
        self.registry = Registry(self._host)
        self.schedules = Schedules()
        self.registry.outgoing.egress = egress
        self.wakeup = Wakeup()
        self._callers = JobClients(self.registry.outgoing)

    @overload
    def job(self, function: Handling, /) -> Handling: ...
    @overload
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
    ) -> Callable[[Handling], Handling]: ...

    def job(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        queue: str = QUEUE,
        attempts: int = JOB_ATTEMPTS,
        timeout: timedelta | None = None,
        backoff: Backoff = Backoff(),  # noqa: B008  # it cannot be changed
    ) -> Any:
        """Make a function a job that can be enqueued.

        It asks by parameter name for what it needs: ``job``, ``tx``. With ``tx`` its writes, the
        jobs it enqueues and its own end are one COMMIT; without, no transaction is open.

        Args:
            function: the function, where the decorator stands without parentheses.
            name: what the database knows it by; its own name unless given.
            queue: where it waits unless the caller says otherwise.
            attempts: how often it may fail before it is dead. One unless given.
            timeout: how long one run may take: five minutes, on SQLite ten seconds with ``tx``.
            backoff: how long it waits after an error.
        """

        def add(call: Handling) -> Handling:
            handler = self._handler(call, name, queue, attempts, timeout, backoff)
            if "event" in handler.wants:
                raise UsageError(
                    f"job {handler.name} asks for event, and a plain job has none: ask for job, "
                    "and read job.payload"
                )
            self.registry.add(handler)
            return call

        return add if function is None else add(function)

    def _handler(
        self,
        call: object,
        name: str | None,
        queue: object,
        attempts: object,
        timeout: object,
        backoff: object,
    ) -> Handler:
        handler = handler_of(call, name)
        if not isinstance(backoff, Backoff):
            raise UsageError(f"backoff must be a duly.Backoff(…), not {kind(backoff)}")
        if self._begin is not None and "tx" in handler.wants:
            refuse_other_mode(handler, self._begin)
        return replace(
            handler,
            queue=checked_queue(queue),
            attempts=checked_count("attempts", attempts, most=MOST_ATTEMPTS),
            timeout=self._timeout(timeout, handler),
            backoff=backoff,
        )

    def _timeout(self, timeout: object, handler: Handler) -> int:
        if timeout is not None:
            length = checked_duration("timeout", timeout, least=timedelta(milliseconds=1))
            if length > LONGEST_TIMEOUT // MICROSECOND:
                raise UsageError("timeout must be at most a day: split the work into several jobs")
            return length
        locks = "tx" in handler.wants and not self.store.capabilities.concurrent_writers
        return (LOCKING_TIMEOUT if locks else TIMEOUT) // MICROSECOND

    def work(
        self,
        *,
        until: Until = "idle",
        concurrency: int = CONCURRENCY,
        queues: Mapping[str, int] | Iterable[str] | None = None,
        lease: timedelta = LEASE,
        grace: timedelta = GRACE,
    ) -> Worked:
        """Work in this thread until there is nothing to do, or until told to stop.

        ``duly worker`` does this with signals and logs; here it serves tests and scripts.

        Args:
            until: ``idle`` ends when no job can run now; ``stopped`` never by itself.
            concurrency: how many jobs run at the same time, in each queue.
            queues: which queues, each with a number of its own if it is a mapping; all that
                handlers name unless given.
            lease: how long this worker may be silent before its jobs are given to others.
            grace: how long jobs may take to end when it is told to stop.
        """
        if loop_is_running():
            raise SyncAsyncMismatch("an event loop is running here: use await app.aio.work(…)")
        settings = worker_settings(concurrency, self._queues(queues), lease, grace)
        return asyncio.run(self._work_and_release(settings, checked_until(until)))

    def _queues(self, queues: object) -> object:
        """The queues that were asked for, else those in which jobs of this app wait."""
        if queues is not None:
            return queues
        return [QUEUE, *sorted({one.queue for one in self.registry.all()} - {QUEUE})]

    async def _work_and_release(self, settings: WorkerSettings, until: Until) -> Worked:
        try:
            return await self.worker(settings).run(until)
        finally:
            await self.release_loop()

    def worker(self, settings: WorkerSettings) -> Worker:
        """A worker that has not begun, for the running event loop."""
        self.enter_loop()
        secrets = texts_to_hide(self.site, self.registry.outgoing, self.store)
        own = self._opener is None
        at_once = max(self._connections - SPARE, 1) if own else settings.at_once
        return Worker(
            WorkerDependencies(
                self.store,
                self.registry,
                self.site.routes,
                self.wakeup,
                self._place(self.store.sync_runner, secrets),
                self._place(self.store.async_runner, secrets),
                {
                    "sync": at_once,
                    "async": at_once,
                    "any": 1,
                },
                self.schedules,
                self._host,
            ),
            settings,
        )

    def _place(self, runner: Runner, secrets: Sequence[str]) -> ExecutionContext:
        place = ExecutionContext(
            runner,
            self._opener or runner,
            self.registry,
            self.store.clock,
            secrets,
            self._callers,
            self.wakeup,
            host=self._host,
        )
        if self._opener is None or runner is not self.store.sync_runner:
            return place
        return place._replace(renew_connections=self._opener.renew_connections)


class AsyncJobVerbs(AsyncSendVerbs, AsyncRelayVerbs):
    """The same verbs awaited."""

    def __init__(self, app: JobVerbs) -> None:
        self._jobs_of: JobVerbs = app

    async def work(
        self,
        *,
        until: Until = "idle",
        concurrency: int = CONCURRENCY,
        queues: Mapping[str, int] | Iterable[str] | None = None,
        lease: timedelta = LEASE,
        grace: timedelta = GRACE,
    ) -> Worked:
        """Work in this event loop until there is nothing to do, or until told to stop."""
        settings = worker_settings(concurrency, self._jobs_of._queues(queues), lease, grace)
        return await self._jobs_of.worker(settings).run(checked_until(until))
