"""``app.aio``: the verbs of an app, awaited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.app.admin import AsyncJobAdmin, AsyncOutboxAdmin
from duly.app.calls import Calls
from duly.app.options import MOVED_TO_JOBS, ReceiveOptions, RelayOptions, WorkOptions
from duly.app.process import run_relay, run_worker
from duly.core.exports import old_names, show_keywords
from duly.jobs.options import EnqueueManyOptions, EnqueueOptions
from duly.jobs.registry import JobRegistry
from duly.jobs.tx import AsyncTx
from duly.outbox.options import SendOptions
from duly.outbox.registry import OutboxRegistry
from duly.receiver.direct import check_direct_delivery
from duly.receiver.responses import Reply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractAsyncContextManager
    from typing import Unpack

    from duly.app.duly import Duly
    from duly.core.json_bytes import Storable
    from duly.inbox.forget import Forgotten
    from duly.jobs.enqueue import Enqueued
    from duly.outbox.message import Staged
    from duly.relay.stats import Relayed
    from duly.stores.join.protocols import AsyncJoinableTx
    from duly.webhooks.delivery import Headers
    from duly.worker.stats import Worked


@old_names("app.aio", **MOVED_TO_JOBS)
class AsyncDuly:
    """``app.aio``: the verbs of `Duly`, awaited."""

    def __init__(self, app: Duly) -> None:
        self._app = app
        self._calls = Calls(app, "async", AsyncTx)

    @property
    def jobs(self) -> AsyncJobAdmin:
        """Dead jobs, replay, and counts."""
        app = self._app
        return AsyncJobAdmin(app.store.async_runner, app.wakeup, app.process.begin)

    @property
    def outbox(self) -> AsyncOutboxAdmin:
        """Messages that are not sent yet, dead messages, replay, and counts."""
        app = self._app
        return AsyncOutboxAdmin(app.store.async_runner, app.wakeup, app.process.begin)

    @show_keywords(EnqueueOptions, JobRegistry.new)
    async def enqueue(
        self,
        job: Callable[..., Any] | str,
        payload: Storable = None,
        *,
        tx: AsyncJoinableTx | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> Enqueued:
        """`Duly.enqueue`, awaited."""
        return await self._calls.enqueue(job, payload, tx, **options)

    @show_keywords(EnqueueManyOptions, JobRegistry.new)
    async def enqueue_many(
        self,
        job: Callable[..., Any] | str,
        payloads: Iterable[Storable],
        *,
        tx: AsyncJoinableTx | None = None,
        **options: Unpack[EnqueueManyOptions],
    ) -> list[Enqueued]:
        """`Duly.enqueue_many`, awaited."""
        return await self._calls.enqueue_many(job, payloads, tx, **options)

    @show_keywords(SendOptions, OutboxRegistry.new)
    async def send(
        self, url: str, *, tx: AsyncJoinableTx | None = None, **options: Unpack[SendOptions]
    ) -> Staged:
        """`Duly.send`, awaited."""
        return await self._calls.send(url, tx, **options)

    def transaction(self) -> AbstractAsyncContextManager[AsyncTx]:
        """`Duly.transaction`, for ``async with``."""
        return self._calls.transaction()

    @show_keywords(WorkOptions, run_worker)
    async def work(self, **options: Unpack[WorkOptions]) -> Worked:
        """`Duly.work`, in the running event loop."""
        return await run_worker(self._app.process, **options)

    @show_keywords(RelayOptions, run_relay)
    async def relay(self, **options: Unpack[RelayOptions]) -> Relayed:
        """`Duly.relay`, in the running event loop."""
        return await run_relay(self._app.process, **options)

    @show_keywords(ReceiveOptions, check_direct_delivery)
    async def receive(
        self, source: str, headers: Headers, body: bytes, **options: Unpack[ReceiveOptions]
    ) -> Reply:
        """`Duly.receive`, awaited."""
        route = self._app.router.route_named(source)
        given = check_direct_delivery(route, headers, body, **options)
        if isinstance(given, Reply):
            return given
        return await self._app.receiver.receive(route, *given)

    async def forget(self, source: str, event_id: str, *, tenant: str | None = None) -> Forgotten:
        """`Duly.forget`, awaited."""
        return await self._calls.forget(source, event_id, tenant)
