"""What duly does in a storm: processes that receive, work and relay."""

from __future__ import annotations

import faulthandler
import logging
import select
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from duly.core.errors import DulyError
from duly.demo.journal import Journal
from duly.demo.settings import LEASE
from duly.demo.shared import wrapping
from duly.demo.shop import Handling, bare_shop, shop
from duly.demo.world import FAILED, GAVE_UP, World
from duly.relay.settings import RelaySettings
from duly.server.relay_plan import hosted_relay
from duly.server.settings import Settings as ServeSettings
from duly.server.shutdown import LAST, REPLACE, leave_at_once, noticed_signals
from duly.server.supervise import hanging
from duly.server.worker_plan import hosted
from duly.worker.settings import Settings as WorkerSettings

if TYPE_CHECKING:
    import duly
    from duly.service.service_thread import Hosted

# Seconds that what was begun may take to finish when a process is told to end.
GRACE = 10.0
# Seconds for a database that is away when a process begins.
OPENING = 60.0
# The relay's lease: its call takes three seconds at most.
RELAY_LEASE = timedelta(seconds=5)
# Jobs that one worker runs at the same time. SQLite has one transaction for all of them; what is
# leased and waits for it is held up when its worker is killed.
AT_ONCE, AT_ONCE_ON_SQLITE = 16, 4


def receive(world: World, url: str, slot: int) -> int:
    """Receive deliveries: what `duly serve --no-worker --no-relay` does."""
    from duly.server.serve import serve

    app = bare(world, url, Journal(world.file("ingress.journal")))
    opened(app)
    settings = ServeSettings(app="storm", access=False, drain=GRACE, concurrency=None, relay=False)
    return serve(
        app,
        world.ingress,
        settings,
        ready=lambda: world.up(slot),
        lifeline=world.lifeline[0],
    )


def bare(world: World, url: str, journal: Journal, slot: int = 0) -> duly.Duly:
    """The application; receivers must know its handlers too, or there would be no jobs."""
    settings, downstream = world.settings, world.downstream_url
    handling = Handling(
        settings, world.shared, journal, slot=slot, downstream=f"{downstream}/messages"
    )
    return shop(settings, url, downstream, handling)


def work(world: World, url: str, slot: int) -> int:
    """Run jobs: what `duly worker` does."""
    world.shared[wrapping(slot)] = 0
    journal = Journal(world.file(f"worker-{slot}.journal"))
    logging.getLogger("duly").addHandler(journal)
    app = bare(world, url, journal, slot)
    opened(app)
    at_once = AT_ONCE_ON_SQLITE if world.settings.on_sqlite else AT_ONCE
    settings = WorkerSettings({"default": at_once}, lease=LEASE, grace=timedelta(seconds=GRACE))
    with noticed_signals() as line:
        worker = hosted(app, settings, over=line.stir)
        world.up(slot)
        return minded(app, worker, line, world.lifeline[0])


def relay(world: World, url: str, slot: int) -> int:
    """Send messages: what `duly relay` does."""
    app = bare_shop(world.settings, url, world.downstream_url)
    opened(app)
    settings = RelaySettings(per_destination=20, lease=RELAY_LEASE, grace=timedelta(seconds=GRACE))
    with noticed_signals() as line:
        relaying = hosted_relay(app, settings, over=line.stir)
        world.up(slot)
        return minded(app, relaying, line, world.lifeline[0])


def opened(app: duly.Duly) -> None:
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


def minded(app: duly.Duly, host: Hosted[Any], line: Any, lifeline: int) -> int:
    """Until a signal ends it, or the end of whoever directs the storm; returns the exit code.

    As `duly.server.supervise` does it; but what hangs is replaced by another process, because
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
        if line.read() and due is None:
            host.stop()
            due = time.monotonic() + GRACE + LAST
    if host.problem is not None:
        logging.getLogger("duly.storm").error("%s has failed", host.name, exc_info=host.problem)
        return FAILED
    if host.worked is not None and host.worked.stuck:
        return REPLACE
    if not hanging():
        app.close()
    return 0
