"""An app on one database, as one process runs it: its receiver, workers, relays and event loops."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from duly.app.options import checked_until
from duly.jobs.handlers import QUEUE
from duly.receiver.receiver import Database, Receiver
from duly.relay.relay import Relay
from duly.relay.settings import CONCURRENCY as MESSAGES_AT_ONCE
from duly.relay.settings import GRACE as RELAY_GRACE
from duly.relay.settings import PER_DESTINATION, RelayDependencies, relay_settings
from duly.stores.orm.begin import SameDatabase
from duly.worker.dependencies import WorkerDependencies
from duly.worker.run_job import ExecutionContext
from duly.worker.settings import CONCURRENCY, GRACE, LEASE, worker_settings
from duly.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from duly.app.duly import Duly
    from duly.core.session import Runner
    from duly.relay.sender import Sender
    from duly.relay.settings import RelaySettings
    from duly.relay.stats import Relayed
    from duly.stores.join.protocols import BeginsTransactions
    from duly.stores.orm.begin import Begin
    from duly.stores.store import Store
    from duly.worker.settings import WorkerSettings
    from duly.worker.stats import Worked

# Connections that are left for fetching, settling and effects while handlers have all the others.
SPARE = 2


class Process:
    """An app on one database; `Duly.bound_to` exchanges it for another.

    Args:
        app: what was registered.
        store: where to receive, work and send.
        given: ``begin=`` as the user gave it.
        begin: what that was recognised as.
        connections: how many connections duly's own pool may open.
        deadline: how long a delivery may wait for its commit.
        queue: how many events may wait for a commit.
    """

    def __init__(
        self,
        app: Duly,
        store: Store,
        given: BeginsTransactions | None,
        begin: Begin | None,
        *,
        connections: int,
        deadline: timedelta,
        queue: int,
    ) -> None:
        self._app = app
        self._connections = connections
        self.store, self.given_begin, self.begin = store, given, begin
        self.opener = opener = None if begin is None else SameDatabase(begin, store)
        if begin is not None:
            begin.register_app(app)

        async def release() -> None:
            if begin is not None:
                await begin.release()
            await store.aclose()

        self.receiver = Receiver(
            Database(store.sync_runner, store.async_runner, opener, release, connections),
            clock=store.clock,
            deadline=deadline,
            queue=queue,
            on_new_work=app.wakeup.notify,
            sources=lambda: [route.source for route in app.router.routes.values()],
            attendance=app.registries.outbox.relay_liveness,
        )

    @property
    def in_one_loop(self) -> bool:
        """True where receiver, worker and relay of one process must share an event loop."""
        return self.opener is not None and self.opener.in_one_loop

    def enter_loop(self) -> None:
        """Refuse the running event loop where the pool of ``begin=`` belongs to another one."""
        if self.begin is not None:
            self.begin.enter_loop()

    async def release_loop(self) -> None:
        """Give back what the running event loop holds: connections to the database, and others."""
        await self._app.clients.aclose_loop()
        if self.begin is not None:
            await self.begin.release()
        await self.store.aclose_loop()

    def queues(self, queues: object = None) -> object:
        """The queues that were asked for, else those in which jobs of this app wait."""
        if queues is not None:
            return queues
        return [QUEUE, *sorted({one.queue for one in self._app.registries.jobs.all()} - {QUEUE})]

    def worker(self, settings: WorkerSettings) -> Worker:
        """A worker that has not started, for the running event loop."""
        self.enter_loop()
        app, secrets = self._app, self._texts_to_hide()
        own = self.opener is None
        at_once = max(self._connections - SPARE, 1) if own else settings.at_once
        return Worker(
            WorkerDependencies(
                self.store,
                app.registries,
                app.router.routes,
                app.wakeup,
                self._context(self.store.sync_runner, secrets),
                self._context(self.store.async_runner, secrets),
                {"sync": at_once, "async": at_once, "any": 1},
                app.schedules,
                app._host,
            ),
            settings,
        )

    def relay(self, settings: RelaySettings, sender: Sender | None = None) -> Relay:
        """A relay that has not started, for the running event loop."""
        self.enter_loop()
        app = self._app
        parts = RelayDependencies(
            self.store, app.registries.outbox, app.wakeup, self._texts_to_hide(), app._host
        )
        return Relay(parts, settings, sender)

    def _context(self, runner: Runner, secrets: Sequence[str]) -> ExecutionContext:
        app = self._app
        context = ExecutionContext(
            runner,
            self.opener or runner,
            app.registries,
            self.store.clock,
            secrets,
            app.clients,
            app.wakeup,
            host=app._host,
        )
        if self.begin is None or runner is not self.store.sync_runner:
            return context
        return context._replace(renew_connections=self.begin.renew_connections)

    def _texts_to_hide(self) -> list[str]:
        """What no log and no error may show: secrets, and the password of the database."""
        routes = self._app.router.routes.values()
        secrets = [text for route in routes for text in route.source.texts_to_hide()]
        for signer in self._app.registries.outbox.signers.values():
            secrets += signer.texts_to_hide()
        password = urlsplit(self.store.url).password
        return secrets if password is None else [*secrets, password, unquote(password)]


async def run_worker(
    process: Process,
    *,
    until: object = "idle",
    concurrency: object = CONCURRENCY,
    queues: object = None,
    lease: object = LEASE,
    grace: object = GRACE,
) -> Worked:
    """`Duly.work` in the running event loop."""
    settings = worker_settings(concurrency, process.queues(queues), lease, grace)
    return await process.worker(settings).run(checked_until(until))


async def run_relay(
    process: Process,
    *,
    until: object = "idle",
    concurrency: object = MESSAGES_AT_ONCE,
    per_destination: object = PER_DESTINATION,
    lease: object = None,
    grace: object = RELAY_GRACE,
) -> Relayed:
    """`Duly.relay` in the running event loop."""
    settings = relay_settings(concurrency, per_destination, lease, grace)
    return await process.relay(settings).run(checked_until(until))
