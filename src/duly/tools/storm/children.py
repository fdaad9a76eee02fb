"""What runs in the processes of a storm, each forked from the one that directs it.

They are out of reach of Ctrl-C, write their complaints into the folder, and end when the process
that started them does.
"""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import gc
import logging
import os
import select
import shutil
import signal
import sqlite3
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from duly._kernel.errors import DulyError
from duly.runtime.hosting import event_loop
from duly.runtime.relaying.settings import RelaySettings
from duly.runtime.settings import Settings as WorkerSettings
from duly.tools.serving.endings import LAST, REPLACE, leave_at_once, noticed_signals
from duly.tools.serving.settings import Settings as ServeSettings
from duly.tools.storm.downstream import Reading, Receiver
from duly.tools.storm.journal import Journal
from duly.tools.storm.proxy import ClientEnd, Proxy
from duly.tools.storm.sender import Sender
from duly.tools.storm.settings import LEASE
from duly.tools.storm.shared import Place, up, wrapping
from duly.tools.storm.shop import Handling, bare_shop, shop
from duly.tools.working.minding import hanging
from duly.tools.working.plans import hosted
from duly.tools.working.relays import hosted_relay

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    import duly
    from duly.runtime.hosting import Hosted
    from duly.tools.storm.database import Server
    from duly.tools.storm.settings import Settings
    from duly.tools.storm.shared import Shared

DOWNSTREAM = "downstream"
# From linux/prctl.h.
PR_SET_PDEATHSIG = 1
# Seconds that what was begun may take to finish when a process is told to end.
GRACE = 10.0
# Seconds for a database that is away when a process begins.
OPENING = 60.0
# The relay's lease: its call takes three seconds at most.
RELAY_LEASE = timedelta(seconds=5)
# What duly's commands return where the database is away when they begin, or while they drain.
GAVE_UP = 1
FAILED = 70
# Jobs that one worker runs at the same time. SQLite has one transaction for all of them; what is
# leased and waits for it is held up when its worker is killed.
AT_ONCE, AT_ONCE_ON_SQLITE = 16, 4


@dataclass(frozen=True, slots=True)
class World:
    """What every process inherits."""

    settings: Settings
    shared: Shared
    ingress: socket.socket
    """Where deliveries arrive: all processes that receive share it, so none is lost with one."""
    downstream: socket.socket
    proxy: socket.socket
    lifeline: tuple[int, int]
    """A pipe that nobody writes to: its end is the end of whoever directs the storm."""

    @property
    def downstream_url(self) -> str:
        """Where messages go."""
        return f"http://127.0.0.1:{self.downstream.getsockname()[1]}"

    def up(self, slot: int) -> None:
        """Say that this process has begun to work."""
        self.shared[up(slot)] = os.getpid()

    def file(self, name: str) -> Path:
        """A file of this storm."""
        return self.settings.folder / name


def run(world: World, name: str, work: Callable[[World], int]) -> None:
    """Do the work of one process, to its end."""
    detach(world, name)
    gc.unfreeze()
    code = FAILED
    try:
        code = work(world)
    except BaseException:
        logging.getLogger("duly.storm").exception("%s has failed", name)
    leave_at_once(code)


def detach(world: World, name: str) -> None:
    """Leave the terminal alone, and do not outlive the parent."""
    os.setpgid(0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    log = world.file(f"{name}.log")
    errors = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for ours, standard in ((nothing, 0), (nothing, 1), (errors, 2)):
        os.dup2(ours, standard)
    os.close(world.lifeline[1])
    # Elsewhere only the lifeline tells; and one of them is needed to clear up.
    if sys.platform == "linux" and name != DOWNSTREAM:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(message)s"))
    handler.addFilter(Sparing())
    logging.getLogger("duly").handlers = [handler]
    logging.getLogger("duly").setLevel(logging.WARNING)


class Sparing(logging.Filter):
    """Lets the first few records of each kind pass: a storm says the same a million times."""

    MOST = 5

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[str, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is one of the first."""
        kind = str(record.msg)
        self._seen[kind] = self._seen.get(kind, 0) + 1
        return self._seen[kind] <= self.MOST or record.levelno >= logging.CRITICAL


# Ingress, workers and relays


def receive(world: World, url: str, slot: int) -> int:
    """Receive deliveries: what `duly serve --no-worker --no-relay` does."""
    from duly.tools.serving.server import serve

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

    As `duly.tools.working.minding` does it; but what hangs is replaced by another process, because
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


# Those beside them


def send(world: World) -> int:
    """Send events, and save the books."""
    port = world.ingress.getsockname()[1]

    async def main() -> int:
        books = await Sender(world.settings, world.shared, port).run()
        books.save(world.file("sender.json"))
        world.shared[Place.SENDER_DONE] = 1
        return 0

    return looped(world, main())


def listen(world: World) -> int:
    """Receive messages downstream."""
    receiver = Receiver(world.settings, world.shared, world.file("downstream.db"))
    return looped(world, served(world.downstream, lambda: Reading(receiver)), left=cleared)


def carry(world: World, server: Server) -> int:
    """Carry what goes between duly and its server."""
    proxy = Proxy(server, world.shared, world.settings.dice("proxy"))
    return looped(world, served(world.proxy, lambda: ClientEnd(proxy)))


def hold(_world: World, path: Path, seconds: float) -> int:
    """Keep the write lock of a SQLite file for a while, as a careless program does."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=10.0)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        time.sleep(seconds)
        connection.execute("ROLLBACK")
    return 0


def cleared(world: World) -> None:
    """Whoever directs the storm was killed, and cannot remove its folder any more."""
    if not world.settings.keep:
        shutil.rmtree(world.settings.folder, ignore_errors=True)


def looped(
    world: World,
    main: Coroutine[Any, Any, int],
    *,
    left: Callable[[World], None] = lambda _: None,
) -> int:
    """Run on the fastest event loop, for as long as the lifeline lasts; ``left`` is for its end."""

    def leave() -> None:
        left(world)
        leave_at_once(FAILED)

    async def whole() -> int:
        asyncio.get_running_loop().add_reader(world.lifeline[0], leave)
        return await main

    with asyncio.Runner(loop_factory=event_loop) as runner:
        return runner.run(whole())


async def served(listener: socket.socket, protocol: Callable[[], asyncio.Protocol]) -> int:
    """Serve on a socket until told to end."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    await loop.create_server(protocol, sock=listener)
    await ended.wait()
    return 0
