"""What the processes of a storm do: duly's receiver, worker and relay; and those around duly.

Around duly there are a sender, a receiver downstream, a proxy before PostgreSQL, a program that
holds SQLite's write lock, and an operator.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import select
import shutil
import signal
import sqlite3
import time
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import duly
from duly.core.errors import DulyError
from duly.core.retry import RESCUE_LIMIT
from duly.demo.context import FAILED, GAVE_UP, CounterIndex, StormContext, wrapping_index
from duly.demo.downstream import DownstreamConnection, DownstreamReceiver
from duly.demo.events import Catalog
from duly.demo.journal import Journal
from duly.demo.proxy import ClientEnd, Proxy
from duly.demo.sender import StormSender
from duly.demo.sender_log import read_sender_log
from duly.demo.settings import LEASE
from duly.demo.shop import ShopHandlers, bare_shop, shop
from duly.relay.settings import RelaySettings
from duly.server.services import relay_service, worker_service
from duly.server.settings import ServerSettings
from duly.server.shutdown import LAST, REPLACE, catch_signals, has_hung_handlers, leave_at_once
from duly.service.service_thread import new_event_loop
from duly.worker.settings import WorkerSettings

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from duly.demo.databases import PostgresDatabase, Server, SqliteDatabase
    from duly.demo.settings import Settings
    from duly.server.shutdown import SignalPipe
    from duly.service.service_thread import ServiceThread

# Seconds that a drain may take.
GRACE = 10.0
# Seconds for a database that is away when a process begins.
OPENING = 60.0
# The relay's lease: its call takes three seconds at most.
RELAY_LEASE = timedelta(seconds=5)
# Jobs that one worker runs at the same time. SQLite has one transaction for all of them; jobs that
# are leased and wait for it are held up when their worker is killed.
AT_ONCE, AT_ONCE_ON_SQLITE = 16, 4
DEAD = (
    "SELECT CAST(job.id AS TEXT), job.name, event.event_id, job.rescues FROM {jobs} AS job"
    " JOIN {events} AS event ON event.id = job.event WHERE job.state = 'dead'"
)


# duly


def run_receiver(context: StormContext, url: str, slot: int) -> int:
    """Receive deliveries, as `duly serve --no-worker --no-relay` does."""
    from duly.server.serve import serve

    app = app_with_handlers(context, url, Journal(context.file("ingress.journal")))
    open_store(app)
    settings = ServerSettings(app="storm", access=False, drain=GRACE, concurrency=None, relay=False)
    return serve(
        app,
        context.ingress,
        settings,
        ready=lambda: context.mark_up(slot),
        lifeline=context.lifeline[0],
    )


def app_with_handlers(
    context: StormContext, url: str, journal: Journal, slot: int = 0
) -> duly.Duly:
    """Return the application; receivers need its handlers too, or they would enqueue no jobs."""
    settings, downstream = context.settings, context.downstream_url
    handlers = ShopHandlers(
        settings, context.shared, journal, slot=slot, downstream=f"{downstream}/messages"
    )
    return shop(settings, url, downstream, handlers)


def run_worker(context: StormContext, url: str, slot: int) -> int:
    """Run jobs, as `duly worker` does."""
    context.shared[wrapping_index(slot)] = 0
    journal = Journal(context.file(f"worker-{slot}.journal"))
    logging.getLogger("duly").addHandler(journal)
    app = app_with_handlers(context, url, journal, slot)
    open_store(app)
    at_once = AT_ONCE_ON_SQLITE if context.settings.on_sqlite else AT_ONCE
    settings = WorkerSettings({"default": at_once}, lease=LEASE, grace=timedelta(seconds=GRACE))
    with catch_signals() as signals:
        worker = worker_service(app, settings, on_end=signals.wake)
        context.mark_up(slot)
        return supervise(app, worker, signals, context.lifeline[0])


def run_relay(context: StormContext, url: str, slot: int) -> int:
    """Send messages, as `duly relay` does."""
    app = bare_shop(context.settings, url, context.downstream_url)
    open_store(app)
    settings = RelaySettings(per_destination=20, lease=RELAY_LEASE, grace=timedelta(seconds=GRACE))
    with catch_signals() as signals:
        relay = relay_service(app, settings, on_end=signals.wake)
        context.mark_up(slot)
        return supervise(app, relay, signals, context.lifeline[0])


def open_store(app: duly.Duly) -> None:
    """Open the store; wait while its server is away."""
    deadline = time.monotonic() + OPENING
    while True:
        try:
            app.store.open()
        except DulyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def supervise(
    app: duly.Duly, service: ServiceThread[Any], signals: SignalPipe, lifeline: int
) -> int:
    """Run a worker or relay until a signal, or until the orchestrator ends; return the exit code.

    As `duly.server.shutdown` does it; but a process with a hung handler asks to be replaced,
    because it was not started by a command line.
    """
    service.start()
    deadline: float | None = None
    while not service.wait(0):
        left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
        ready, _, _ = select.select([signals.reader, lifeline], [], [], left)
        if lifeline in ready:
            leave_at_once(FAILED)
        if not ready:  # its leases are left to be rescued, as `duly worker` logs then
            faulthandler.dump_traceback()
            leave_at_once(GAVE_UP)
        if signals.read_signals() and deadline is None:
            service.stop()
            deadline = time.monotonic() + GRACE + LAST
    if service.problem is not None:
        logger = logging.getLogger("duly.storm")
        logger.error("%s has failed", service.name, exc_info=service.problem)
        return FAILED
    if service.result is not None and service.result.stuck:
        return REPLACE
    if not has_hung_handlers():
        app.close()
    return 0


# Around duly


def run_sender(context: StormContext) -> int:
    """Send events, and save the sender's log."""
    port = context.ingress.getsockname()[1]

    async def main() -> int:
        log = await StormSender(context.settings, context.shared, port).run()
        log.save(context.file("sender.json"))
        context.shared[CounterIndex.SENDER_DONE] = 1
        return 0

    return run_loop(context, main())


def run_downstream(context: StormContext) -> int:
    """Receive messages downstream."""
    receiver = DownstreamReceiver(context.settings, context.shared, context.file("downstream.db"))
    return run_loop(
        context,
        serve_until_signal(context.downstream, lambda: DownstreamConnection(receiver)),
        on_parent_exit=remove_folder,
    )


def run_proxy(context: StormContext, server: Server) -> int:
    """Carry the traffic between duly and its server."""
    proxy = Proxy(server, context.shared, context.settings.dice("proxy"))
    return run_loop(context, serve_until_signal(context.proxy, lambda: ClientEnd(proxy)))


def hold_write_lock(_context: StormContext, path: Path, seconds: float) -> int:
    """Hold the write lock of a SQLite file for a while, as a careless program does."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=10.0)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        time.sleep(seconds)
        connection.execute("ROLLBACK")
    return 0


def replay_victims(
    settings: Settings, database: SqliteDatabase | PostgresDatabase, sender_log: Path
) -> int:
    """Replay jobs that died with their workers and by no fault of their own; return how many.

    The operator's work, once all is quiet. duly gives up a job that was lost with five workers: it
    cannot tell one that kills its process from one that only ran beside it. A person can.
    """
    catalog = Catalog(settings.seed, read_sender_log(sender_log).calm_from)
    victims = [
        job
        for job, handler, event, rescues in database.query(DEAD)
        # Wrapping a gift never kills; handling an event kills if the event is of that kind.
        if rescues >= RESCUE_LIMIT and (handler == "wrap" or not catalog.event(int(event[4:])).dies)
    ]
    if not victims:
        return 0
    with closing(duly.Duly(settings.url, schema=settings.schema)) as app:
        return sum(len(app.jobs.replay(job).ids) for job in victims)


def remove_folder(context: StormContext) -> None:
    """Remove the folder for an orchestrator that was killed."""
    if not context.settings.keep:
        shutil.rmtree(context.settings.folder, ignore_errors=True)


def run_loop(
    context: StormContext,
    main: Coroutine[Any, Any, int],
    *,
    on_parent_exit: Callable[[StormContext], None] = lambda _: None,
) -> int:
    """Run on the fastest event loop until the lifeline ends; then ``on_parent_exit`` runs."""

    def leave() -> None:
        on_parent_exit(context)
        leave_at_once(FAILED)

    async def whole() -> int:
        asyncio.get_running_loop().add_reader(context.lifeline[0], leave)
        return await main

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(whole())


async def serve_until_signal(
    listener: socket.socket, protocol: Callable[[], asyncio.Protocol]
) -> int:
    """Serve on a socket until SIGTERM."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    await loop.create_server(protocol, sock=listener)
    await ended.wait()
    return 0
