"""One set-up from its first process to its audit."""

from __future__ import annotations

import os
import random
import shutil
import socket
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.receiver.faults.clusters import cluster
from tests.support.proxies import proxy

from verification.setups.audit import audited
from verification.setups.books import Books
from verification.setups.catalog import SOURCES
from verification.setups.evidence import Evidence, gather, wait_until_drained
from verification.setups.faults import NONE, OWN_SERVER, PROXIED, World, strike_until
from verification.setups.places import place_on, prepared, with_scheme
from verification.setups.programs import running
from verification.setups.senders import SECRET, hire, send_again
from verification.setups.writing import write_application

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping

    from tests.receiver.faults.clusters import Cluster
    from tests.support.proxies import Proxy

    from verification.setups.catalog import Setup
    from verification.setups.places import Place, Server
    from verification.setups.programs import Program

# Seconds for a set-up to listen, on a machine that is busy.
STARTING = 60.0
# Seconds for jobs and messages to be done after faults, where the leases of a killed `duly serve`
# last for 30 seconds, and those of its messages for 60.
RECOVERING = 180.0
# Seconds without any progress after which, without faults, there is nothing more to wait for; and
# the longest wait while there is some, since a busy machine may take its time.
STALLED, DRAINING = 20.0, 900.0
# Ports below those that the system gives to outgoing connections, which could take one in the
# moment in which a killed server is started again.
PORTS = (10_000, 30_000)
# libpq and asyncpg ask for encryption first; a proxy can only read what is not encrypted.
PLAIN = {"PGSSLMODE": "disable", "PGGSSENCMODE": "disable"}


class Stopped(Exception):
    """The run was told to end."""


class Order(NamedTuple):
    """One trial: which set-up, under which fault, for how long, from which seed."""

    setup: Setup
    fault: str
    seconds: float
    seed: int

    @property
    def name(self) -> str:
        """The set-up, and its fault where there is one."""
        return self.setup.name if self.fault == NONE else f"{self.setup.name} {self.fault}"


class Outcome(NamedTuple):
    """What a trial has shown."""

    order: Order
    violations: list[str]
    answers: dict[str, int]
    events: int
    entries: int
    messages: int
    struck: int
    seconds: float


class Room(NamedTuple):
    """What all trials of a run share."""

    server: Server | None
    stop: threading.Event
    logs: Path | None
    """Where the logs of those that failed are kept."""


class Trial:
    """Runs one order."""

    def __init__(self, order: Order, room: Room) -> None:
        self._order, self._stop, self._logs = order, room.stop, room.logs
        self._server = room.server if order.setup.database.store == "postgres" else None
        self._books = Books()
        self._port = free_port()

    def run(self) -> Outcome:
        """All of it."""
        begun = time.monotonic()
        with ExitStack() as stack:
            # Short, because it may be part of the path of a socket.
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="duly-setup-")))
            struck_down, place = self._place(stack, folder)
            wire = None
            if self._server is not None and self._order.fault in PROXIED:
                wire = stack.enter_context(proxy(place.url))
            write_application(self._order.setup, folder)
            commands = self._order.setup.commands(self._port, faulty=self._order.fault != NONE)
            around = self._environment(folder, wire.url if wire else place.url)
            programs = stack.enter_context(running(commands, folder, around))
            self._wait_until_listening(programs)
            struck = self._traffic(programs, struck_down, wire)
            found = self._audit(programs, place, folder)
            outcome = self._outcome(found, struck, time.monotonic() - begun)
            if outcome.violations and self._logs is not None:
                keep_logs(folder, self._logs / self._order.name.replace("/", "_").replace(" ", "_"))
        return outcome

    def _place(self, stack: ExitStack, folder: Path) -> tuple[Cluster | None, Place]:
        """The database; on a server of its own where that is to be struck down."""
        if self._server is None or self._order.fault not in OWN_SERVER:
            return None, stack.enter_context(place_on(self._server, folder))
        own = stack.enter_context(cluster())
        server = stack.enter_context(prepared(own.url))
        return own, stack.enter_context(server.place())

    def _environment(self, folder: Path, url: str) -> Mapping[str, str]:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("DULY_")}
        return {
            **ours,
            **PLAIN,
            "DATABASE_URL": with_scheme(url, self._order.setup.database.scheme),
            "SHOP_SECRET": SECRET,
            "PARTNER_LOG": str(folder / "partner.log"),
            "DJANGO_SETTINGS_MODULE": "settings",
        }

    def _wait_until_listening(self, programs: list[Program]) -> None:
        deadline = time.monotonic() + STARTING
        while not listens(self._port):
            self._look(programs)
            died = [death for program in programs for death in program.deaths]
            if died or time.monotonic() > deadline:
                logs = "\n".join(program.log.read_text()[-2000:] for program in programs)
                raise AssertionError(f"{self._order.name} never listened: {died}\n{logs}")
            time.sleep(0.05)

    def _traffic(
        self, programs: list[Program], struck_down: Cluster | None, wire: Proxy | None
    ) -> int:
        """Send for as long as it was asked, with the faults meanwhile; how often one struck."""
        order = self._order
        over = time.monotonic() + order.seconds
        senders = hire(order.setup, self._port, self._books, order.seed)
        struck = 0
        try:
            if order.fault != NONE:
                dice = random.Random(f"{order.seed}/{order.name}")
                world = World(programs, dice, struck_down, wire)
                struck = strike_until(order.fault, world, over, self._stop.is_set)
            while time.monotonic() < over:
                self._look(programs)
                time.sleep(0.05)
        finally:
            for sender in senders:
                sender.stop()
            for sender in senders:
                sender.join()
        if order.fault != NONE:
            self._look(programs)
            send_again(order.setup, self._port, self._books)
        return struck

    def _look(self, programs: list[Program]) -> None:
        """See whether one died, and end where told to."""
        for program in programs:
            program.look()
        if self._stop.is_set():
            raise Stopped

    def _audit(self, programs: list[Program], place: Place, folder: Path) -> Evidence:
        """Wait until all is done, let the processes drain, then look."""
        left = self._drained(programs, place)
        open_transactions = place.open_transactions()
        for program in programs:
            program.end()
        found = gather(place, folder / "partner.log")
        found.left, found.open_transactions = left, open_transactions
        found.deaths = [death for program in programs for death in program.deaths]
        found.complaints = [line for program in programs for line in program.complaints()]
        return found

    def _drained(self, programs: list[Program], place: Place) -> list[str]:
        calm = self._order.fault == NONE
        moved = time.monotonic()
        over = moved + (DRAINING if calm else RECOVERING)
        before: list[str] = []
        while (left := wait_until_drained(place, 0.5)) and time.monotonic() < over:
            self._look(programs)
            moved = moved if left == before else time.monotonic()
            before = left
            if calm and time.monotonic() - moved > STALLED:
                break
        return left

    def _outcome(self, found: Evidence, struck: int, seconds: float) -> Outcome:
        unharmed = self._order.fault == NONE
        violations = audited(self._books, found, unharmed=unharmed)
        if not unharmed and not struck:
            violations.append("vacuous: no fault struck")
        if not self._books.answers()["accepted"]:
            violations.append("vacuous: nothing was accepted")
        effects = [kind for kind, _ in found.entries if kind in SOURCES["both"]]
        return Outcome(
            self._order, violations, dict(self._books.answers()), len(found.inbox), len(effects),
            len(found.told), struck, seconds,
        )  # fmt: skip


def keep_logs(folder: Path, kept: Path) -> None:
    """Copy what the processes said."""
    kept.mkdir(parents=True, exist_ok=True)
    for log in folder.glob("*.log"):
        shutil.copy(log, kept)


def free_port() -> int:
    """A port that nothing listens on, outside the range of outgoing connections."""
    while True:
        port = random.SystemRandom().randrange(*PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def listens(port: int) -> bool:
    """True once a server accepts connections."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def run_order(order: Order, room: Room) -> Outcome:
    """Run one order; what breaks it is a violation of its own."""
    try:
        return Trial(order, room).run()
    except Stopped:
        raise
    except Exception as problem:
        return Outcome(order, [f"broken: {type(problem).__name__}: {problem}"], {}, 0, 0, 0, 0, 0.0)
