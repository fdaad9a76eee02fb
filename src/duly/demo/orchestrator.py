"""The phases of a storm: faults, then a drain without faults, then the audit of the ledger."""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from duly.demo import roles
from duly.demo.context import DOWNSTREAM, CounterIndex, SharedCounters, StormContext
from duly.demo.databases import PostgresDatabase, Remaining, Unreachable, database_of
from duly.demo.display import Phase, Snapshot
from duly.demo.events import Catalog
from duly.demo.evidence import gather_evidence
from duly.demo.ledger import audit_ledger
from duly.demo.nemesis import Nemesis
from duly.demo.processes import ProcessGroup, Role
from duly.demo.sender_log import read_sender_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.demo.databases import SqliteDatabase, StormProgress
    from duly.demo.display import Display
    from duly.demo.evidence import Evidence
    from duly.demo.ledger import LedgerLine
    from duly.demo.processes import Faults
    from duly.demo.sender_log import SenderLog
    from duly.demo.settings import Settings

# Seconds between two turns of the main loop.
TICK = 0.02
# Seconds between two queries of the progress.
POLL = 0.75
# Seconds without progress, after which what is left counts as lost.
STALLED = 90.0
BACKLOG = 4096
NOTHING = Remaining(jobs=0, messages=0)


class Durations(NamedTuple):
    """Seconds: of the faults, of everything, and of processor time by purpose."""

    faults: float
    total: float
    cpu: dict[str, float]


@dataclass(frozen=True, slots=True)
class StormOutcome:
    """The ledger of a storm, and the numbers for its report."""

    lines: list[LedgerLine]
    evidence: Evidence
    sender_log: SenderLog
    faults: Faults
    nemesis: dict[str, int]
    lost: tuple[int, int]
    """Replies and requests that the proxy before the database lost."""
    durations: Durations
    replayed: int
    """Jobs that the operator replayed: lost with five workers, by no fault of their own."""

    @property
    def wrong(self) -> list[LedgerLine]:
        """Return the lines that do not balance."""
        return [line for line in self.lines if not line.balances]


class Orchestrator:
    """Starts the processes, runs the phases, and audits the result."""

    def __init__(
        self, settings: Settings, display: Display, is_interrupted: Callable[[], bool]
    ) -> None:
        self._settings = settings
        self._display = display
        self._is_interrupted = is_interrupted
        self._shared = SharedCounters()
        self._database: SqliteDatabase | PostgresDatabase = database_of(settings)
        self._context = StormContext(
            settings, self._shared, open_listener(), open_listener(), open_listener(), os.pipe()
        )
        self._begun = 0.0
        self._polled = 0.0
        self._last_progress = 0.0
        self._progress: StormProgress | None = None
        self._left: Remaining | None = None
        self._samples: deque[tuple[float, int]] = deque()
        self._replayed = 0

    def run(self) -> StormOutcome:
        """Run the storm and return its outcome."""
        try:
            self._database.prepare()
            return self._run_on_tables()
        finally:
            for end in (self._context.ingress, self._context.downstream, self._context.proxy):
                end.close()
            for pipe in self._context.lifeline:
                os.close(pipe)

    def _run_on_tables(self) -> StormOutcome:
        """Run on prepared tables; drop them unless they are kept, or a line does not balance."""
        keep = self._settings.keep
        try:
            outcome = self._run_phases()
            keep = keep or bool(outcome.wrong)
            return outcome
        finally:
            if not keep:
                with suppress(Unreachable):  # the next run says that the schema is there
                    self._database.clear()

    def _run_phases(self) -> StormOutcome:
        self._begun = time.monotonic()
        with ProcessGroup(self._context) as processes:
            self._start_processes(processes)
            nemesis = Nemesis(
                self._settings,
                self._shared,
                processes,
                self._database,
                self._context.file("nemesis.log"),
            )
            seconds = self._storm(processes, nemesis)
            self._drain(processes)
            processes.terminate_and_wait(Role.INGRESS, Role.WORKER, Role.RELAY)
            processes.terminate_and_wait(Role.ENVIRONMENT)
        durations = Durations(seconds, self._elapsed(), processes.cpu_seconds)
        return self._audit(processes.killed, processes.faults, nemesis, durations)

    def _start_processes(self, processes: ProcessGroup) -> None:
        settings, url = self._settings, self._settings.url
        processes.add(DOWNSTREAM, Role.ENVIRONMENT, roles.run_downstream)
        by_proxy = url
        if isinstance(self._database, PostgresDatabase):
            server = self._database.server
            if server is not None:
                processes.add("proxy", Role.ENVIRONMENT, partial(roles.run_proxy, server=server))
                by_proxy = self._database.by_way_of(self._context.proxy.getsockname()[1])
        # Every second one goes through the proxy, which loses replies.
        for at in range(settings.ingress):
            by = by_proxy if at % 2 == 0 else url
            processes.add(f"ingress-{at}", Role.INGRESS, partial(roles.run_receiver, url=by))
        for at in range(settings.workers):
            by = by_proxy if at % 2 == 0 else url
            processes.add(f"worker-{at}", Role.WORKER, partial(roles.run_worker, url=by))
        for at in range(settings.relays):
            processes.add(f"relay-{at}", Role.RELAY, partial(roles.run_relay, url=by_proxy))
        processes.add("sender", Role.ENVIRONMENT, roles.run_sender, ends=True)

    def _storm(self, processes: ProcessGroup, nemesis: Nemesis) -> float:
        """Deliver and inject faults, as long as asked for or until Ctrl-C; return the seconds."""
        shared, length = self._shared, self._settings.seconds
        while not shared[CounterIndex.STREAM_OVER]:
            elapsed = self._elapsed()
            if self._is_interrupted() or (length is not None and elapsed >= length):
                shared[CounterIndex.END_STREAM] = 1
            nemesis.act(elapsed)
            shared[CounterIndex.ALL_FAULTS_SEEN] = nemesis.has_done_every_fault
            self._tick(processes, Phase.STORM)
        shared[CounterIndex.CALM] = 1
        nemesis.stop_faults(self._elapsed())
        return self._elapsed()

    def _drain(self, processes: ProcessGroup) -> None:
        """Wait without faults or new events until everything is done, or nothing moves any more."""
        if isinstance(self._database, PostgresDatabase):
            self._database.wait()
        self._last_progress = time.monotonic()
        while time.monotonic() - self._last_progress < STALLED:
            self._tick(processes, Phase.DRAIN)
            if (
                self._shared[CounterIndex.SENDER_DONE]
                and self._left == NOTHING
                and not self._replay()
            ):
                return

    def _replay(self) -> int:
        """Let the operator replay dead jobs; return how many."""
        log = self._context.file("sender.json")
        found = roles.replay_victims(self._settings, self._database, log)
        self._replayed += found
        self._left = None
        return found

    def _tick(self, processes: ProcessGroup, phase: Phase) -> None:
        processes.reap_and_restart()
        time.sleep(TICK)
        now = time.monotonic()
        if now - self._polled > POLL:
            self._polled = now
            self._poll_progress(now)
        self._show(processes, phase)

    def _poll_progress(self, now: float) -> None:
        try:
            progress = self._database.read_progress()
            left = (
                self._database.count_remaining() if self._shared[CounterIndex.SENDER_DONE] else None
            )
        except Unreachable:
            return
        if (progress, left) != (self._progress, self._left) or left is None:
            self._last_progress = now
        self._progress, self._left = progress, left
        self._shared[CounterIndex.ENDED] = progress.handled + progress.dead
        self._samples.append((now, self._shared[CounterIndex.SENT]))
        while len(self._samples) > 2 and self._samples[0][0] < now - 2.0:
            self._samples.popleft()

    def _elapsed(self) -> float:
        return time.monotonic() - self._begun

    def _rate(self) -> float:
        if len(self._samples) < 2:
            return 0.0
        (since, before), (now, sent) = self._samples[0], self._samples[-1]
        return (sent - before) / max(now - since, TICK)

    def _show(self, processes: ProcessGroup, phase: Phase) -> None:
        self._display.show(
            Snapshot(
                phase=phase,
                elapsed=self._elapsed(),
                settings=self._settings,
                slots=processes.with_roles(Role.INGRESS, Role.WORKER, Role.RELAY),
                counters=self._shared,
                rate=self._rate(),
                faults=processes.faults,
                progress=self._progress,
            )
        )

    def _audit(
        self, killed: set[int], faults: Faults, nemesis: Nemesis, durations: Durations
    ) -> StormOutcome:
        log = read_sender_log(self._context.file("sender.json"))
        catalog = Catalog(self._settings.seed, log.calm_from)
        evidence = gather_evidence(
            self._database,
            self._settings.folder,
            killed,
            lambda number: catalog.event(number).amount,
        )
        evidence.leftovers = self._database.leftovers()
        evidence.replayed = self._replayed
        shared = self._shared
        return StormOutcome(
            lines=audit_ledger(evidence, log, catalog, faults),
            evidence=evidence,
            sender_log=log,
            faults=faults,
            nemesis=dict(nemesis.done),
            lost=(shared[CounterIndex.REPLIES_LOST], shared[CounterIndex.REQUESTS_LOST]),
            durations=durations,
            replayed=self._replayed,
        )


def open_listener() -> socket.socket:
    """Open a socket on which connections queue from now on."""
    return socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
