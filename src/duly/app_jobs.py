"""The verbs of `Duly` that are about jobs, for code that blocks and awaited."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, overload

from duly._kernel.clock import MICROSECOND
from duly._kernel.errors import Misuse, WrongColour
from duly._kernel.inputs import checked_count, checked_duration, kind
from duly._kernel.onestep import finish
from duly._kernel.options import WAIT
from duly._kernel.retry import Backoff
from duly.app_cron import CronVerbs
from duly.app_dead import AwaitedDeadVerbs, DeadVerbs
from duly.jobs import enqueue as putting
from duly.jobs.bell import Bell
from duly.jobs.handlers import (
    JOB_ATTEMPTS,
    LOCKING_TIMEOUT,
    QUEUE,
    TIMEOUT,
    checked_queue,
    handler_of,
)
from duly.jobs.inside import inside, refuse_inside
from duly.jobs.registry import WINDOW, Registry
from duly.jobs.tx import AsyncTx, OpenTransaction, Tx
from duly.runtime.parts import Parts
from duly.runtime.performing import Place
from duly.runtime.settings import CONCURRENCY, GRACE, LEASE, settings_of
from duly.runtime.worker import Worker
from duly.stores.join import join

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from duly._kernel.results import Json
    from duly._kernel.session import Runner, Session
    from duly.edge.site import Site
    from duly.jobs.enqueue import Enqueued, NewJob
    from duly.jobs.handlers import Colour, Handler
    from duly.runtime.performing import Opener
    from duly.runtime.settings import Settings
    from duly.runtime.taking import Until
    from duly.runtime.tally import Worked
    from duly.stores.base import Store
    from duly.stores.begins import Begin, SameDatabase

Handling = TypeVar("Handling", bound="Callable[..., Any]")
MOST_ATTEMPTS = 1000
LONGEST_TIMEOUT = timedelta(days=1)
BLOCK = "the block of app.transaction()"
INSTEAD = "use tx.enqueue(…), or pass tx=tx"
# Connections that are left for taking, settling and effects while handlers have all the others.
SPARE = 2


class JobVerbs(CronVerbs, DeadVerbs):
    """What `Duly` does about jobs."""

    store: Store
    site: Site
    _begin: Begin | None
    _opener: SameDatabase | None
    _connections: int

    def _begin_jobs(self) -> None:
        self.jobs = Registry()
        self.bell = Bell()

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
                raise Misuse(
                    f"job {handler.name} asks for event, and a plain job has none: ask for job, "
                    "and read job.payload"
                )
            self.jobs.add(handler)
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
            raise Misuse(f"backoff must be a duly.Backoff(…), not {kind(backoff)}")
        if self._begin is not None and "tx" in handler.wants:
            refuse_colour(handler, self._begin)
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
                raise Misuse("timeout must be at most a day: split the work into several jobs")
            return length
        locks = "tx" in handler.wants and not self.store.capabilities.concurrent_writers
        return (LOCKING_TIMEOUT if locks else TIMEOUT) // MICROSECOND

    def enqueue(
        self,
        job: Callable[..., Any] | str,
        payload: Json = None,
        *,
        key: str | bytes | None = None,
        window: timedelta = WINDOW,
        delay: timedelta | None = None,
        at: datetime | None = None,
        priority: int = 0,
        queue: str | None = None,
        tx: object = None,
    ) -> Enqueued:
        """Enqueue a job; it runs after the COMMIT of the transaction that it is enqueued in.

        Args:
            job: the function that was registered, or its name.
            payload: what it needs to know, as JSON.
            key: names the work. While it is known, the job that it led to is returned and none is
                added; your transaction is unharmed.
            window: how long the key is known. Then a new job starts, unless the old one still has
                work to do.
            delay: how long to wait before it runs.
            at: when to run it instead.
            priority: the smallest number runs first.
            queue: where it waits, unless in its own.
            tx: your own open transaction: a connection or session that duly recognises, or the
                ``tx`` of a handler. Without one it is committed at once.
        """
        new = self.jobs.new(
            job, payload, key=key, window=window, delay=delay, at=at, priority=priority, queue=queue
        )
        session = self._joined(tx, "sync", "app.enqueue")
        if session is not None:
            return finish(joined(session, [new]))[0]
        done = finish(committed(self.store.blocking, [new]))
        self.bell.ring()
        return done[0]

    def enqueue_many(
        self,
        job: Callable[..., Any] | str,
        payloads: Iterable[Json],
        *,
        keys: Iterable[str | bytes] | None = None,
        window: timedelta = WINDOW,
        delay: timedelta | None = None,
        at: datetime | None = None,
        priority: int = 0,
        queue: str | None = None,
        tx: object = None,
    ) -> list[Enqueued]:
        """`enqueue` for many jobs of one handler: all of them or none, in one statement."""
        new = self.jobs.new_many(
            job, payloads, keys=keys, window=window, delay=delay, at=at, priority=priority,
            queue=queue,
        )  # fmt: skip
        session = self._joined(tx, "sync", "app.enqueue_many")
        if session is not None:
            return finish(joined(session, new))
        done = finish(committed(self.store.blocking, new))
        self.bell.ring()
        return done

    def _joined(self, tx: object, colour: Colour, verb: str) -> Session | None:
        """The caller's transaction; None where there is none, and none is open around the call."""
        if tx is None:
            refuse_inside(verb, INSTEAD)
            return None
        if isinstance(tx, OpenTransaction):
            if isinstance(tx, AsyncTx) != (colour == "async"):
                twin = "await app.aio." if colour == "sync" else "app."
                raise WrongColour(f"this tx is of the other colour: use {twin}{verb[4:]}")
            return tx.joined()
        return join(tx, self.store.names, self.store.clock, colour=colour, verb=verb)

    @contextmanager
    def transaction(self) -> Iterator[Tx]:
        """A transaction of duly's own, or of ``begin=``: committed at the end of the block."""
        refuse_inside("app.transaction", "its tx is what you have already")
        opener = self._opener_for("sync")
        opening = opener.opened(wait=WAIT)
        opened = finish(opening.__aenter__())
        try:
            opened.at_ease()
            tx = Tx(opened, self.jobs)
            with tx.lasting(), inside(BLOCK):
                yield tx
        except BaseException as problem:
            finish(opening.__aexit__(type(problem), problem, problem.__traceback__))
            raise
        finish(opening.__aexit__(None, None, None))
        self.bell.ring()

    def _opener_for(self, colour: Colour) -> Opener:
        """Who opens transactions of a colour."""
        if self._opener is not None:
            if self._begin is not None and self._begin.colour != colour:
                twin = (
                    "async with app.aio.transaction()"
                    if colour == "sync"
                    else "with app.transaction()"
                )
                raise WrongColour(f"begin= opens transactions of the other colour: use {twin}")
            return self._opener
        return self.store.blocking if colour == "sync" else self.store.awaited

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
            queues: which queues, each with a number of its own if it is a mapping.
            lease: how long this worker may be silent before its jobs are given to others.
            grace: how long jobs may take to end when it is told to stop.
        """
        if asyncio._get_running_loop() is not None:
            raise WrongColour("an event loop is running here: use await app.aio.work(…)")
        settings = settings_of(concurrency, queues, lease, grace)
        return asyncio.run(self._work_and_release(settings, checked_until(until)))

    async def _work_and_release(self, settings: Settings, until: Until) -> Worked:
        try:
            return await self.worker(settings).run(until)
        finally:
            await self.store.aclose_loop()

    def worker(self, settings: Settings) -> Worker:
        """A worker that has not begun; for whoever runs and stops it."""
        secrets = [
            text for route in self.site.routes.values() for text in route.source.texts_to_hide()
        ]
        own = self._opener is None
        at_once = max(self._connections - SPARE, 1) if own else settings.at_once
        return Worker(
            Parts(
                self.store,
                self.jobs,
                self.site.routes,
                self.bell,
                self._place(self.store.blocking, secrets),
                self._place(self.store.awaited, secrets),
                {
                    "sync": at_once,
                    "async": at_once,
                    "any": 1,
                },
                self.schedules,
            ),
            settings,
        )

    def _place(self, runner: Runner, secrets: Sequence[str]) -> Place:
        return Place(runner, self._opener or runner, self.jobs, self.store.clock, secrets)


class AwaitedJobVerbs(AwaitedDeadVerbs):
    """The same verbs awaited."""

    def __init__(self, app: JobVerbs) -> None:
        super().__init__(app)
        self._jobs_of = app

    async def enqueue(
        self,
        job: Callable[..., Any] | str,
        payload: Json = None,
        *,
        key: str | bytes | None = None,
        window: timedelta = WINDOW,
        delay: timedelta | None = None,
        at: datetime | None = None,
        priority: int = 0,
        queue: str | None = None,
        tx: object = None,
    ) -> Enqueued:
        """Enqueue a job; it runs after the COMMIT of the transaction that it is enqueued in."""
        app = self._jobs_of
        new = app.jobs.new(
            job, payload, key=key, window=window, delay=delay, at=at, priority=priority, queue=queue
        )
        session = app._joined(tx, "async", "app.enqueue")
        if session is not None:
            return (await joined(session, [new]))[0]
        done = await committed(app.store.awaited, [new])
        app.bell.ring()
        return done[0]

    async def enqueue_many(
        self,
        job: Callable[..., Any] | str,
        payloads: Iterable[Json],
        *,
        keys: Iterable[str | bytes] | None = None,
        window: timedelta = WINDOW,
        delay: timedelta | None = None,
        at: datetime | None = None,
        priority: int = 0,
        queue: str | None = None,
        tx: object = None,
    ) -> list[Enqueued]:
        """`enqueue` for many jobs of one handler: all of them or none, in one statement."""
        app = self._jobs_of
        new = app.jobs.new_many(
            job, payloads, keys=keys, window=window, delay=delay, at=at, priority=priority,
            queue=queue,
        )  # fmt: skip
        session = app._joined(tx, "async", "app.enqueue_many")
        if session is not None:
            return await joined(session, new)
        done = await committed(app.store.awaited, new)
        app.bell.ring()
        return done

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncTx]:
        """A transaction of duly's own, or of ``begin=``: committed at the end of the block."""
        refuse_inside("app.aio.transaction", "its tx is what you have already")
        async with self._jobs_of._opener_for("async").opened(wait=WAIT) as opened:
            opened.at_ease()
            tx = AsyncTx(opened, self._jobs_of.jobs)
            with tx.lasting(), inside(BLOCK):
                yield tx
        self._jobs_of.bell.ring()

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
        settings = settings_of(concurrency, queues, lease, grace)
        return await self._jobs_of.worker(settings).run(checked_until(until))


async def joined(session: Session, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Enqueue in a transaction that is not ours."""
    await session.begin(None)
    return await putting.enqueue_many(session, jobs)


async def committed(runner: Runner, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Enqueue in a transaction of duly's own.

    Without a key it is never run a second time after a lost reply: the first may have committed,
    and a worker may have done the job and removed it.
    """
    if any(job.key is not None for job in jobs):
        return await runner.run(lambda session: putting.enqueue_many(session, jobs), wait=WAIT)
    return await runner.run_batch(lambda session: putting.enqueue_many(session, jobs))


def checked_until(until: object) -> Until:
    """When a worker ends."""
    if until not in ("idle", "stopped"):
        raise Misuse('until must be "idle" or "stopped"')
    return until


def refuse_colour(handler: Handler, begin: Begin) -> None:
    """Refuse a handler whose colour is not that of the ORM's transactions."""
    if handler.colour != begin.colour:
        raise Misuse(
            f"handler {handler.name} is {handler.colour}, and begin= opens {begin.colour} "
            f"transactions: make it {'async def' if begin.colour == 'async' else 'def'}"
        )
