"""The processes of duly in a schedule: each runs the real classes, dies, and comes back.

A worker is duly's `Worker` with its heartbeat, fetcher, executor and completer; a relay is duly's
`Relay`; a receiver is duly's `Receiver` with its commit queue. Their threads are strands. The
relay sends through the application's own transport, so that no HTTP client is loaded.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from duly.core.defaults import PRUNE_CHUNK
from duly.core.errors import DulyError
from duly.receiver.receiver import Database, Receiver
from duly.receiver.request import Request as Posted
from duly.relay.relay import Relay
from duly.relay.sender import Sender
from duly.relay.settings import RelayDependencies, RelaySettings
from duly.service.maintenance import PRUNERS
from duly.service.wakeup import Wakeup
from duly.worker.dependencies import WorkerDependencies
from duly.worker.run_job import ExecutionContext
from duly.worker.settings import WorkerSettings
from duly.worker.worker import Worker
from verification.simulation.application import application
from verification.simulation.hosts import HOST, RECEIVER_PAUSE, RELAY_PAUSES, THREADS, WORKER_PAUSES
from verification.simulation.stores import SimulatedStore

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from duly.receiver.responses import Reply
    from verification.simulation.processes import Process
    from verification.simulation.world import World

# Seconds after which a process that died comes back.
BACK = (0.2, 1.0, 4.0)
LEASE = timedelta(seconds=3)
MESSAGE_LEASE = timedelta(seconds=7)
DEADLINE = timedelta(seconds=5)
GRACE = timedelta(seconds=3)
SLOTS = 3


class Actor:
    """One process of a deployment, through all its lives."""

    # Whether it removes what is old, ends when it is told to, and has leases.
    prunes = False
    can_end = False
    leases = False

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.lives = 0
        # What is being answered just now.
        self.requests: list[asyncio.Task[Any]] = []
        self.again = world.dice.random() < 0.5
        self.slow = world.dice.random() < 0.2
        self.process: Process = world.outside
        self.store: SimulatedStore
        self.boot()

    def boot(self) -> None:
        """Begin a new life."""
        self.lives += 1
        self.requests = []
        process = self.process = self.world.process(f"{self.name}.{self.lives}")
        process.slow = self.slow
        process.died = self.died
        self.world.tell(process, "begins")
        process.soon(self._begin)
        process.run()

    def _begin(self) -> None:
        self.store = SimulatedStore(self.process, again=self.again)
        self.begin()

    def begin(self) -> None:
        """Put together what the process runs; it is running."""
        raise NotImplementedError

    def died(self) -> None:
        """It will come back."""
        self.count()
        pause = BACK[int(self.world.dice.random() * len(BACK))]
        self.world.later(pause, self.boot)

    def run(self, work: Any) -> None:
        """Run the main task of the process; when that ends, so does the process."""
        process = self.process

        def ended(task: asyncio.Task[Any]) -> None:
            problem = None if task.cancelled() else task.exception()
            if problem is not None and not isinstance(problem, DulyError):
                self.world.complaints.append(f"{process} ended by {problem!r}")
            self.world.tell(process, "ends" if problem is None else f"ends: {problem!r}")
            process.die()

        process.loop.create_task(work).add_done_callback(ended)

    def count(self) -> None:
        """Say what happened in this life, for the report."""

    def end(self, *, hurried: bool) -> None:
        """SIGTERM, once or twice."""

    def prune(self) -> None:
        """Have what is old removed now, and not when its time comes."""
        self.world.tell(self.process, "removes what is old")
        self.process.soon(lambda: self.process.loop.create_task(self._prune()))
        self.process.run()

    async def _prune(self) -> None:
        try:
            for prune in PRUNERS:
                if await prune(self.store.async_runner, PRUNE_CHUNK):
                    self.world.seen["prunes that removed something"] += 1
        except DulyError as problem:
            self.world.tell(self.process, f"could not remove what is old: {problem}")

    @property
    def idle(self) -> bool:
        """Whether it has nothing to do."""
        return not self.requests

    @property
    def at_rest(self) -> bool:
        """Whether it is alive, and has nothing to do."""
        return self.process.alive and self.idle

    def task(self, work: Any) -> asyncio.Task[Any]:
        """Something to be answered, which may be cancelled meanwhile."""
        task: asyncio.Task[Any] = self.process.loop.create_task(work)
        self.requests.append(task)
        task.add_done_callback(self.requests.remove)
        return task


class WorkerActor(Actor):
    """A worker."""

    prunes = True
    can_end = True
    leases = True

    def begin(self) -> None:
        """Begin to work."""
        app, store = application(), self.store
        wakeup = Wakeup()
        place = ExecutionContext(
            store.async_runner,
            store.async_runner,
            app.registries,
            store.clock,
            (),
            app.clients,
            wakeup,
            host=HOST,
            rescue_backoff=WORKER_PAUSES.rescue,
        )
        parts = WorkerDependencies(
            store, app.registries, app.router.routes, wakeup, place, place,
            {"sync": SLOTS, "async": SLOTS, "any": 1}, app.schedules, HOST, THREADS,
        )  # fmt: skip
        self.worker = Worker(
            parts, WorkerSettings({"default": SLOTS}, LEASE, GRACE, pauses=WORKER_PAUSES)
        )
        self.run(self.worker.run())

    def end(self, *, hurried: bool) -> None:
        """Stop it as a supervisor does."""
        self.process.soon(self.worker.stop_now if hurried else self.worker.stop)
        self.process.run()

    def count(self) -> None:
        """Which leases it lost."""
        self.world.seen["runs that lost their lease"] += self.worker.worked.lost

    @property
    def idle(self) -> bool:
        """Whether it has no job."""
        crew = self.worker._executor
        left = crew.version_completer.pending + crew.completer.pending
        return not crew.slots and not left and not crew._cancelled_tasks


class QuietSender(Sender):
    """duly's sender, without the HTTP client that nothing here is sent by."""

    def prepare(self) -> None:
        """There is nothing to load."""


class RelayActor(Actor):
    """A relay."""

    can_end = True
    leases = True

    def begin(self) -> None:
        """Begin to send."""
        app = application()
        parts = RelayDependencies(self.store, app.registries.outbox, Wakeup(), (), HOST)
        settings = RelaySettings(3, 2, MESSAGE_LEASE, GRACE, RELAY_PAUSES)
        self.relay = Relay(parts, settings, QuietSender(app.registries.outbox))
        self.run(self.relay.run())

    def end(self, *, hurried: bool) -> None:
        """Stop it as a supervisor does."""
        self.process.soon(self.relay.stop_now if hurried else self.relay.stop)
        self.process.run()

    def count(self) -> None:
        """Which leases it lost."""
        self.world.seen["messages that lost their lease"] += self.relay.relayed.lost

    @property
    def idle(self) -> bool:
        """Whether it has no message."""
        return not self.relay._dispatcher.busy


class ReceiverActor(Actor):
    """A server that receives."""

    def begin(self) -> None:
        """Begin to listen."""
        store = self.store
        database = Database(store.sync_runner, store.async_runner, None, store.aclose, 10)
        self.receiver = Receiver(
            database, clock=store.clock, deadline=DEADLINE, queue=100,
            counters_pause=RECEIVER_PAUSE,
        )  # fmt: skip

    def post(
        self,
        source: str,
        headers: Mapping[str, str],
        body: bytes,
        heard: Callable[[Reply | None], None],
    ) -> None:
        """A request arrives; what it is answered is heard, unless the process dies before."""

        def arrived() -> None:
            route = application().router.routes[f"/{source}"]
            posted = Posted("POST", headers, f"https://receiver/{source}", None, None, len(body))
            task = self.task(self.receiver.receive(route, posted, body))
            task.add_done_callback(answered)

        def answered(task: asyncio.Task[Reply]) -> None:
            heard(None if task.cancelled() else task.result())

        self.process.soon(arrived)
        self.process.run()
