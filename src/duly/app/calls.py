"""The one body of what an app does in a transaction: `enqueue`, `send`, `forget`, `transaction`.

`Duly` runs it on the sync runner of its store and finishes it in one step; `AsyncDuly` awaits it on
the async runner.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from duly.app.admin import refuse_joined
from duly.core.defaults import WAIT
from duly.core.errors import Parameter, SyncAsyncMismatch, UsageError
from duly.core.validation import checked_scope, kind
from duly.inbox.forget import forget_committed
from duly.jobs.enqueue import enqueue_many
from duly.jobs.tx import AsyncTx, BaseTx, refuse_inside
from duly.outbox.message import stage
from duly.stores.join.recognise import join

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence
    from contextlib import AbstractAsyncContextManager
    from typing import Unpack

    from duly.app.duly import Duly
    from duly.core.functions import Mode
    from duly.core.json_bytes import Storable
    from duly.core.session import OpenedTransaction, Runner, Session
    from duly.inbox.forget import Forgotten
    from duly.inbox.route import Route
    from duly.jobs.enqueue import Enqueued, NewJob
    from duly.jobs.options import EnqueueManyOptions, EnqueueOptions
    from duly.outbox.message import NewMessage, Staged
    from duly.outbox.options import SendOptions

T = TypeVar("T", bound=BaseTx[Any])
BLOCK = "the block of app.transaction()"


class Calls(Generic[T]):
    """What an app writes, sync or async."""

    def __init__(self, app: Duly, mode: Mode, tx: type[T]) -> None:
        self._app = app
        self._mode = mode
        self._tx = tx

    @property
    def _runner(self) -> Runner:
        store = self._app.store
        return store.sync_runner if self._mode == "sync" else store.async_runner

    async def enqueue(
        self,
        job: Callable[..., Any] | str,
        payload: Storable,
        tx: object,
        **options: Unpack[EnqueueOptions],
    ) -> Enqueued:
        """`Duly.enqueue`."""
        new = self._app.registries.jobs.new(job, payload, **options)
        [done] = await self._enqueue("app.enqueue", [new], tx)
        return done

    async def enqueue_many(
        self,
        job: Callable[..., Any] | str,
        payloads: Iterable[Storable],
        tx: object,
        **options: Unpack[EnqueueManyOptions],
    ) -> list[Enqueued]:
        """`Duly.enqueue_many`."""
        new = self._app.registries.jobs.new_many(job, payloads, **options)
        return await self._enqueue("app.enqueue_many", new, tx)

    async def _enqueue(self, verb: str, jobs: Sequence[NewJob], tx: object) -> list[Enqueued]:
        session = await self._join(tx, verb, "use tx.enqueue(…), or pass tx=tx")
        if session is not None:
            await session.begin(None)
            return await enqueue_many(session, jobs)
        done = await enqueue_and_commit(self._runner, jobs)
        self._app.wakeup.notify(("jobs",))
        return done

    async def send(self, url: str, tx: object, **options: Unpack[SendOptions]) -> Staged:
        """`Duly.send`."""
        new = self._app.registries.outbox.new(url, **options)
        session = await self._join(tx, "app.send", "use tx.send(…), or pass tx=tx")
        if session is not None:
            await session.begin(None)
            return await stage(session, new)
        done = await stage_and_commit(self._runner, new)
        self._app.wakeup.notify(("messages",))
        self._app.receiver.metrics.note_staged()
        return done

    async def forget(self, source: object, event_id: object, tenant: object) -> Forgotten:
        """`Duly.forget`."""
        route = self._app.router.route_named(source)
        if not isinstance(event_id, str) or not event_id:
            raise UsageError(
                f"event_id must be the id that the sender gave it, not {kind(event_id)}"
            )
        scope = checked_scope(route.scope(checked_tenant_of(route, tenant)))
        refuse_joined("app.forget", self._app.process.begin)
        done = await forget_committed(self._runner, scope, event_id)
        # An event that was too old stays so where the source remembers: no handler will run.
        parked = done.too_old and route.window is not None
        again = () if parked else route.handlers.matching(done.type)
        return replace(done, handlers=tuple(handler.name for handler in again))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[T]:
        """`Duly.transaction`: committed at the end of the block."""
        path = "app" if self._mode == "sync" else "app.aio"
        refuse_inside(f"{path}.transaction", "its tx is what you have already")
        async with self._open_transaction() as opened:
            opened.restore_timeouts()
            tx = self._tx(opened, self._app.registries)
            with tx.lasting(BLOCK):
                yield tx
        self._app.wakeup.notify(opened.session.new_work)
        self._app.receiver.metrics.note_staged()

    def _open_transaction(self) -> AbstractAsyncContextManager[OpenedTransaction]:
        """A transaction, or a savepoint in the one that the caller has open in its ORM."""
        process = self._app.process
        if process.opener is None or process.begin is None:
            return self._runner.open_transaction(wait=WAIT)
        around = process.begin.surrounding() if self._mode == "sync" else None
        if around is not None:
            return process.opener.open_savepoint(around, wait=WAIT)
        if process.begin.mode != self._mode:
            twin = (
                "async with app.aio.transaction()"
                if self._mode == "sync"
                else "with app.transaction()"
            )
            raise SyncAsyncMismatch(f"begin= opens {process.begin.mode} transactions: use {twin}")
        return process.opener.open_transaction(wait=WAIT)

    async def _join(self, tx: object, verb: str, instead: str) -> Session | None:
        """The caller's transaction; None where it gave none, and none is open around the call."""
        if tx is None:
            refuse_inside(verb, instead)
            return await self._join_surrounding(verb)
        if isinstance(tx, BaseTx):
            if isinstance(tx, AsyncTx) != (self._mode == "async"):
                is_sync = self._mode == "sync"
                twin = "await app.aio." if is_sync else "app."
                raise SyncAsyncMismatch(
                    f"this tx is {'async' if is_sync else 'sync'}: use {twin}{verb[4:]}"
                )
            return tx.joined()
        store = self._app.store
        return join(tx, store.names, store.clock, mode=self._mode, verb=verb)

    async def _join_surrounding(self, verb: str) -> Session | None:
        """The transaction that is open in this thread on the connection of ``begin=``, if any."""
        process = self._app.process
        around = None if process.begin is None else process.begin.surrounding()
        if process.opener is None or around is None:
            return None
        if self._mode == "async":
            raise SyncAsyncMismatch(
                f"a transaction of begin= is open in this thread, and {verb} awaited would be "
                f"committed even if that is rolled back: use {verb}(…), which joins it"
            )
        return await process.opener.join_session(around, wait=WAIT)


def checked_tenant_of(route: Route, tenant: object) -> str | None:
    """The tenant to look in, where the source has tenants; None where it has none."""
    if (tenant is not None) != (route.tenant is not None):
        remedy = "has tenants: name one with" if route.tenant else "has no tenants: leave out"
        raise UsageError(f"source {route.name} {remedy} ", Parameter("tenant"))
    if tenant is not None and (not isinstance(tenant, str) or not tenant):
        raise UsageError(f"tenant must be a string that is not empty, not {kind(tenant)}")
    return tenant


async def enqueue_and_commit(runner: Runner, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Enqueue in a transaction of duly's own.

    Without a key it is never run a second time after a lost reply: the first may have committed,
    and a worker may have done the job and removed it.
    """
    if any(job.key is not None for job in jobs):
        return await runner.run(lambda session: enqueue_many(session, jobs), wait=WAIT)
    return await runner.run_batch(lambda session: enqueue_many(session, jobs))


async def stage_and_commit(runner: Runner, message: NewMessage) -> Staged:
    """Stage in a transaction of duly's own.

    Without a key it is never run a second time after a lost reply: the first may have committed,
    and a relay may have sent the message and removed it.
    """
    if message.claim is not None:
        return await runner.run(lambda session: stage(session, message), wait=WAIT)
    return await runner.run_batch(lambda session: stage(session, message))
