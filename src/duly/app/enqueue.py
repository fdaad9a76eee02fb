"""The verbs of `Duly` that put jobs into the queue, for code that blocks and awaited."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from duly.core.defaults import WAIT
from duly.core.errors import SyncAsyncMismatch
from duly.core.onestep import finish
from duly.jobs import enqueue as putting
from duly.jobs.registry import WINDOW
from duly.jobs.tx import AsyncTx, BaseTx, Tx, refuse_inside
from duly.stores.join.recognise import join

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime, timedelta

    from duly.core.functions import Mode
    from duly.core.json_bytes import Storable
    from duly.core.session import OpenedTransaction, Runner, Session
    from duly.jobs.enqueue import Enqueued, NewJob
    from duly.jobs.registry import Registry
    from duly.receiver.receiver import Receiver
    from duly.service.wakeup import Wakeup
    from duly.stores.join.protocols import AwaitedTx, BlockingTx
    from duly.stores.orm.begin import Begin, SameDatabase
    from duly.stores.store import Store
    from duly.worker.run_job import JobTransactionOpener

BLOCK = "the block of app.transaction()"
INSTEAD = "use tx.enqueue(…), or pass tx=tx"


class EnqueueVerbs:
    """What `Duly` does to enqueue jobs."""

    store: Store
    registry: Registry
    wakeup: Wakeup
    receiver: Receiver
    _begin: Begin | None
    _opener: SameDatabase | None

    def enqueue(
        self,
        job: Callable[..., Any] | str,
        payload: Storable = None,
        *,
        key: str | bytes | None = None,
        window: timedelta = WINDOW,
        delay: timedelta | None = None,
        at: datetime | None = None,
        priority: int = 0,
        queue: str | None = None,
        tx: BlockingTx | None = None,
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
                ``tx`` of a handler. Without one it is committed at once, or, with
                ``begin=duly.django(…)``, joins the ``atomic`` that is open around the call.
        """
        new = self.registry.new(
            job, payload, key=key, window=window, delay=delay, at=at, priority=priority, queue=queue
        )
        session = self._join_caller(tx, "sync", "app.enqueue")
        if session is not None:
            return finish(enqueue_in_session(session, [new]))[0]
        done = finish(enqueue_and_commit(self.store.sync_runner, [new]))
        self.wakeup.notify(("jobs",))
        return done[0]

    def enqueue_many(
        self,
        job: Callable[..., Any] | str,
        payloads: Iterable[Storable],
        *,
        keys: Iterable[str | bytes] | None = None,
        window: timedelta = WINDOW,
        delay: timedelta | None = None,
        at: datetime | None = None,
        priority: int = 0,
        queue: str | None = None,
        tx: BlockingTx | None = None,
    ) -> list[Enqueued]:
        """`enqueue` for many jobs of one handler: all of them or none, in one transaction."""
        new = self.registry.new_many(
            job, payloads, keys=keys, window=window, delay=delay, at=at, priority=priority,
            queue=queue,
        )  # fmt: skip
        session = self._join_caller(tx, "sync", "app.enqueue_many")
        if session is not None:
            return finish(enqueue_in_session(session, new))
        done = finish(enqueue_and_commit(self.store.sync_runner, new))
        self.wakeup.notify(("jobs",))
        return done

    def _join_caller(
        self, tx: object, mode: Mode, verb: str, instead: str = INSTEAD
    ) -> Session | None:
        """The caller's transaction; None where there is none, and none is open around the call."""
        if tx is None:
            refuse_inside(verb, instead)
            return self._join_surrounding(mode, verb)
        if isinstance(tx, BaseTx):
            if isinstance(tx, AsyncTx) != (mode == "async"):
                twin = "await app.aio." if mode == "sync" else "app."
                raise SyncAsyncMismatch(f"this tx is of the other colour: use {twin}{verb[4:]}")
            return tx.joined()
        return join(tx, self.store.names, self.store.clock, mode=mode, verb=verb)

    def _join_surrounding(self, mode: Mode, verb: str) -> Session | None:
        """The transaction that is open in this thread on the connection of ``begin=``, if any."""
        around = None if self._opener is None else self._opener.surrounding()
        if self._opener is None or around is None:
            return None
        if mode == "async":
            raise SyncAsyncMismatch(
                f"a transaction of begin= is open in this thread, and {verb} awaited would be "
                f"committed even if that is rolled back: use {verb}(…), which joins it"
            )
        return finish(self._opener.join_session(around, wait=WAIT))

    @contextmanager
    def transaction(self) -> Iterator[Tx]:
        """A transaction of duly's own, or of ``begin=``: committed at the end of the block.

        Inside ``atomic`` of Django's, on the database of ``begin=duly.django(…)``, it is a
        savepoint there, and is committed with that block.
        """
        refuse_inside("app.transaction", "its tx is what you have already")
        opening = self._open_transaction()
        opened = finish(opening.__aenter__())
        try:
            opened.restore_timeouts()
            tx = Tx(opened, self.registry)
            with tx.lasting(BLOCK):
                yield tx
        except BaseException as problem:
            finish(opening.__aexit__(type(problem), problem, problem.__traceback__))
            raise
        finish(opening.__aexit__(None, None, None))
        self.wakeup.notify(opened.session.new_work)
        self.receiver.metrics.note_staged()

    def _open_transaction(self) -> AbstractAsyncContextManager[OpenedTransaction]:
        """A transaction that blocks, or a savepoint in the one that the caller has open."""
        around = None if self._opener is None else self._opener.surrounding()
        if self._opener is not None and around is not None:
            return self._opener.open_savepoint(around, wait=WAIT)
        return self._opener_for("sync").open_transaction(wait=WAIT)

    def _opener_for(self, mode: Mode) -> JobTransactionOpener:
        """Who opens transactions of a colour."""
        if self._opener is not None:
            if self._begin is not None and self._begin.mode != mode:
                twin = (
                    "async with app.aio.transaction()"
                    if mode == "sync"
                    else "with app.transaction()"
                )
                raise SyncAsyncMismatch(
                    f"begin= opens transactions of the other colour: use {twin}"
                )
            return self._opener
        return self.store.sync_runner if mode == "sync" else self.store.async_runner


class AsyncEnqueueVerbs:
    """The same verbs awaited."""

    _jobs_of: EnqueueVerbs

    async def enqueue(
        self,
        job: Callable[..., Any] | str,
        payload: Storable = None,
        *,
        key: str | bytes | None = None,
        window: timedelta = WINDOW,
        delay: timedelta | None = None,
        at: datetime | None = None,
        priority: int = 0,
        queue: str | None = None,
        tx: AwaitedTx | None = None,
    ) -> Enqueued:
        """Enqueue a job; it runs after the COMMIT of the transaction that it is enqueued in."""
        app = self._jobs_of
        new = app.registry.new(
            job, payload, key=key, window=window, delay=delay, at=at, priority=priority, queue=queue
        )
        session = app._join_caller(tx, "async", "app.enqueue")
        if session is not None:
            return (await enqueue_in_session(session, [new]))[0]
        done = await enqueue_and_commit(app.store.async_runner, [new])
        app.wakeup.notify(("jobs",))
        return done[0]

    async def enqueue_many(
        self,
        job: Callable[..., Any] | str,
        payloads: Iterable[Storable],
        *,
        keys: Iterable[str | bytes] | None = None,
        window: timedelta = WINDOW,
        delay: timedelta | None = None,
        at: datetime | None = None,
        priority: int = 0,
        queue: str | None = None,
        tx: AwaitedTx | None = None,
    ) -> list[Enqueued]:
        """`enqueue` for many jobs of one handler: all of them or none, in one transaction."""
        app = self._jobs_of
        new = app.registry.new_many(
            job, payloads, keys=keys, window=window, delay=delay, at=at, priority=priority,
            queue=queue,
        )  # fmt: skip
        session = app._join_caller(tx, "async", "app.enqueue_many")
        if session is not None:
            return await enqueue_in_session(session, new)
        done = await enqueue_and_commit(app.store.async_runner, new)
        app.wakeup.notify(("jobs",))
        return done

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncTx]:
        """A transaction of duly's own, or of ``begin=``: committed at the end of the block."""
        refuse_inside("app.aio.transaction", "its tx is what you have already")
        async with self._jobs_of._opener_for("async").open_transaction(wait=WAIT) as opened:
            opened.restore_timeouts()
            tx = AsyncTx(opened, self._jobs_of.registry)
            with tx.lasting(BLOCK):
                yield tx
        self._jobs_of.wakeup.notify(opened.session.new_work)
        self._jobs_of.receiver.metrics.note_staged()


async def enqueue_in_session(session: Session, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Enqueue in a transaction that is not ours."""
    await session.begin(None)
    return await putting.enqueue_many(session, jobs)


async def enqueue_and_commit(runner: Runner, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Enqueue in a transaction of duly's own.

    Without a key it is never run a second time after a lost reply: the first may have committed,
    and a worker may have done the job and removed it.
    """
    if any(job.key is not None for job in jobs):
        return await runner.run(lambda session: putting.enqueue_many(session, jobs), wait=WAIT)
    return await runner.run_batch(lambda session: putting.enqueue_many(session, jobs))
