"""What duly does in a storm: processes that receive, work and relay."""

from __future__ import annotations

import faulthandler
import logging
import select
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from duly.core.errors import DulyError
from duly.demo.context import FAILED, GAVE_UP, StormContext
from duly.demo.journal import Journal
from duly.demo.settings import LEASE
from duly.demo.shared_counters import wrapping_index
from duly.demo.shop import ShopHandlers, bare_shop, shop
from duly.relay.settings import RelaySettings
from duly.server.services import relay_service, worker_service
from duly.server.settings import ServerSettings as ServeSettings
from duly.server.shutdown import LAST, REPLACE, catch_signals, has_hung_handlers, leave_at_once
from duly.worker.settings import WorkerSettings

if TYPE_CHECKING:
    import duly
    from duly.service.service_thread import ServiceThread

# Seconds that what was begun may take to finish when a process is told to end.
GRACE = 10.0
# Seconds for a database that is away when a process begins.
OPENING = 60.0
# The relay's lease: its call takes three seconds at most.
RELAY_LEASE = timedelta(seconds=5)
# Jobs that one worker runs at the same time. SQLite has one transaction for all of them; what is
# leased and waits for it is held up when its worker is killed.
AT_ONCE, AT_ONCE_ON_SQLITE = 16, 4


def run_receiver(context: StormContext, url: str, slot: int) -> int:
    """Receive deliveries: what `duly serve --no-worker --no-relay` does."""
    from duly.server.serve import serve

    app = receiver_app(context, url, Journal(context.file("ingress.journal")))
    open_store(app)
    settings = ServeSettings(app="storm", access=False, drain=GRACE, concurrency=None, relay=False)
    return serve(
        app,
        context.ingress,
        settings,
        ready=lambda: context.mark_up(slot),
        lifeline=context.lifeline[0],
    )


def receiver_app(context: StormContext, url: str, journal: Journal, slot: int = 0) -> duly.Duly:
    """The application; receivers must know its handlers too, or there would be no jobs."""
    settings, downstream = context.settings, context.downstream_url
    handling = ShopHandlers(
        settings, context.shared, journal, slot=slot, downstream=f"{downstream}/messages"
    )
    return shop(settings, url, downstream, handling)


def run_worker(context: StormContext, url: str, slot: int) -> int:
    """Run jobs: what `duly worker` does."""
    context.shared[wrapping_index(slot)] = 0
    journal = Journal(context.file(f"worker-{slot}.journal"))
    logging.getLogger("duly").addHandler(journal)
    app = receiver_app(context, url, journal, slot)
    open_store(app)
    at_once = AT_ONCE_ON_SQLITE if context.settings.on_sqlite else AT_ONCE
    settings = WorkerSettings({"default": at_once}, lease=LEASE, grace=timedelta(seconds=GRACE))
    with catch_signals() as line:
        worker = worker_service(app, settings, on_end=line.wake)
        context.mark_up(slot)
        return supervise_host(app, worker, line, context.lifeline[0])


def run_relay(context: StormContext, url: str, slot: int) -> int:
    """Send messages: what `duly relay` does."""
    app = bare_shop(context.settings, url, context.downstream_url)
    open_store(app)
    settings = RelaySettings(per_destination=20, lease=RELAY_LEASE, grace=timedelta(seconds=GRACE))
    with catch_signals() as line:
        relaying = relay_service(app, settings, on_end=line.wake)
        context.mark_up(slot)
        return supervise_host(app, relaying, line, context.lifeline[0])


def open_store(app: duly.Duly) -> None:
    """Open the store, however long its server is away."""
    until = time.monotonic() + OPENING
    while True:
        try:
            app.store.open()
        except DulyError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return


def supervise_host(app: duly.Duly, host: ServiceThread[Any], line: Any, lifeline: int) -> int:
    """Until a signal ends it, or the end of whoever directs the storm; returns the exit code.

    As `duly.server.shutdown` does it; but what hangs is replaced by another process, because
    this one was not started by a command line.
    """
    host.start()
    due: float | None = None
    while not host.wait(0):
        left = None if due is None else max(due - time.monotonic(), 0.0)
        ready, _, _ = select.select([line.reader, lifeline], [], [], left)
        if lifeline in ready:
            leave_at_once(FAILED)
        if not ready:  # what it holds is left to be rescued, as `duly worker` says then
            faulthandler.dump_traceback()
            leave_at_once(GAVE_UP)
        if line.read_signals() and due is None:
            host.stop()
            due = time.monotonic() + GRACE + LAST
    if host.problem is not None:
        logging.getLogger("duly.storm").error("%s has failed", host.name, exc_info=host.problem)
        return FAILED
    if host.result is not None and host.result.stuck:
        return REPLACE
    if not has_hung_handlers():
        app.close()
    return 0
