"""The order of events: a storm, then quiet, then everything that is owed, then the ledger."""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from duly.demo import duly_roles, roles
from duly.demo.context import DOWNSTREAM, StormContext
from duly.demo.databases import PostgresDatabase, Remaining, Unreachable, database_of
from duly.demo.display import Phase, Snapshot
from duly.demo.events import Catalog
from duly.demo.evidence import gather_evidence
from duly.demo.ledger import audit_ledger
from duly.demo.nemesis import Nemesis
from duly.demo.operator import replay_victims
from duly.demo.processes import ProcessGroup, Role
from duly.demo.sender_log import read_sender_log
from duly.demo.shared_counters import CounterIndex, SharedCounters

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.demo.databases import SqliteDatabase, StormProgress
    from duly.demo.display import Display
    from duly.demo.evidence import Evidence
    from duly.demo.ledger import LedgerLine
    from duly.demo.processes import Faults
    from duly.demo.sender_log import SenderLog
    from duly.demo.settings import Settings

# Seconds between two turns of whoever directs it.
TICK = 0.02
# Seconds between two looks at the database.
LOOK = 0.75
# Seconds without any progress, after which what is left counts as lost.
STALLED = 90.0
BACKLOG = 4096
NOTHING = Remaining(jobs=0, messages=0)


class Durations(NamedTuple):
    """How long it took: the storm itself, all of it, and the processors' time by purpose."""

    stormed: float
    whole: float
    used: dict[str, float]


@dataclass(frozen=True, slots=True)
class StormOutcome:
    """What a storm has shown."""

    lines: list[LedgerLine]
    evidence: Evidence
    books: SenderLog
    faults: Faults
    nemesis: dict[str, int]
    lost: tuple[int, int]
    """Answers and requests that were lost on the way to the database and back."""
    took: Durations
    replayed: int
    """Jobs that a person replayed: lost with five workers, by no fault of their own."""

    @property
    def wrong(self) -> list[LedgerLine]:
        """The lines that do not balance."""
        return [line for line in self.lines if not line.balances]


class Orchestrator:
    """Brings everybody together."""

    def __init__(self, settings: Settings, display: Display, hurried: Callable[[], bool]) -> None:
        self._settings = settings
        self._display = display
        self._hurried = hurried
        self._shared = SharedCounters()
        self._database: SqliteDatabase | PostgresDatabase = database_of(settings)
        self._context = StormContext(
            settings, self._shared, open_listener(), open_listener(), open_listener(), os.pipe()
        )
        self._begun = 0.0
        self._looked = 0.0
        self._moved = 0.0
        self._seen: StormProgress | None = None
        self._left: Remaining | None = None
        self._samples: deque[tuple[float, int]] = deque()
        self._replayed = 0

    def run(self) -> StormOutcome:
        """All of it."""
        try:
            self._database.prepare()
            return self._run_on_tables()
        finally:
            for end in (self._context.ingress, self._context.downstream, self._context.proxy):
                end.close()
            for pipe in self._context.lifeline:
                os.close(pipe)

    def _run_on_tables(self) -> StormOutcome:
        """All of it, on tables that are there; they stay where somebody will want to see them."""
        keep = self._settings.keep
        try:
            outcome = self._run_phases()
            keep = keep or bool(outcome.wrong)
            return outcome
        finally:
            if not keep:
                with suppress(Unreachable):  # it can be seen in the database, and is told there
                    self._database.clear()

    def _run_phases(self) -> StormOutcome:
        self._begun = time.monotonic()
        with ProcessGroup(self._context) as crew:
            self._start_processes(crew)
            nemesis = Nemesis(
                self._settings,
                self._shared,
                crew,
                self._database,
                self._context.file("nemesis.log"),
            )
            stormed = self._storm(crew, nemesis)
            self._drain(crew)
            crew.terminate_and_wait(Role.INGRESS, Role.WORKER, Role.RELAY)
            crew.terminate_and_wait(Role.ENVIRONMENT)
            killed = crew.killed
            used = dict(crew.used)
            faults = crew.faults
        return self._audit(killed, faults, nemesis, Durations(stormed, self._elapsed(), used))

    def _start_processes(self, processes: ProcessGroup) -> None:
        settings, url = self._settings, self._settings.url
        processes.add(DOWNSTREAM, Role.ENVIRONMENT, roles.run_downstream)
        wire = url
        if isinstance(self._database, PostgresDatabase):
            server = self._database.server
            if server is not None:
                processes.add("proxy", Role.ENVIRONMENT, partial(roles.run_proxy, server=server))
                wire = self._database.by_way_of(self._context.proxy.getsockname()[1])
        # Every second one goes over the wire on which answers get lost.
        for at in range(settings.ingress):
            by = wire if at % 2 == 0 else url
            processes.add(f"ingress-{at}", Role.INGRESS, partial(duly_roles.run_receiver, url=by))
        for at in range(settings.workers):
            by = wire if at % 2 == 0 else url
            processes.add(f"worker-{at}", Role.WORKER, partial(duly_roles.run_worker, url=by))
        for at in range(settings.relays):
            processes.add(f"relay-{at}", Role.RELAY, partial(duly_roles.run_relay, url=wire))
        processes.add("sender", Role.ENVIRONMENT, roles.run_sender, ends=True)

    def _storm(self, processes: ProcessGroup, nemesis: Nemesis) -> float:
        """Deliver and do harm, for as long as it was asked for or until hurried."""
        shared, length = self._shared, self._settings.seconds
        while not shared[CounterIndex.STREAM_OVER]:
            passed = self._elapsed()
            if self._hurried() or (length is not None and passed >= length):
                shared[CounterIndex.END_STREAM] = 1
            nemesis.act(passed)
            shared[CounterIndex.CONTENT] = nemesis.has_done_every_fault
            self._tick(processes, Phase.STORM)
        shared[CounterIndex.CALM] = 1
        nemesis.stop_faults(self._elapsed())
        return self._elapsed()

    def _drain(self, processes: ProcessGroup) -> None:
        """No more harm and no new events: until everything is done, or nothing moves any more."""
        if isinstance(self._database, PostgresDatabase):
            self._database.wait()
        self._moved = time.monotonic()
        while time.monotonic() - self._moved < STALLED:
            self._tick(processes, Phase.DRAIN)
            if (
                self._shared[CounterIndex.SENDER_DONE]
                and self._left == NOTHING
                and not self._replay()
            ):
                return

    def _replay(self) -> int:
        """Have somebody look at the dead letters; how many of them are tried once more."""
        books = self._context.file("sender.json")
        found = replay_victims(self._settings, self._database, books)
        self._replayed += found
        self._left = None
        return found

    def _tick(self, processes: ProcessGroup, phase: Phase) -> None:
        processes.reap_and_restart()
        time.sleep(TICK)
        now = time.monotonic()
        if now - self._looked > LOOK:
            self._looked = now
            self._poll_progress(now)
        self._show(processes, phase)

    def _poll_progress(self, now: float) -> None:
        try:
            seen = self._database.read_progress()
            left = (
                self._database.count_remaining() if self._shared[CounterIndex.SENDER_DONE] else None
            )
        except Unreachable:
            return
        if (seen, left) != (self._seen, self._left) or left is None:
            self._moved = now
        self._seen, self._left = seen, left
        self._shared[CounterIndex.ENDED] = seen.handled + seen.dead
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
                numbers=self._shared,
                rate=self._rate(),
                faults=processes.faults,
                seen=self._seen,
            )
        )

    def _audit(
        self, killed: set[int], faults: Faults, nemesis: Nemesis, took: Durations
    ) -> StormOutcome:
        books = read_sender_log(self._context.file("sender.json"))
        catalog = Catalog(self._settings.seed, books.calm_from)
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
            lines=audit_ledger(evidence, books, catalog, faults),
            evidence=evidence,
            books=books,
            faults=faults,
            nemesis=dict(nemesis.done),
            lost=(shared[CounterIndex.REPLIES_LOST], shared[CounterIndex.REQUESTS_LOST]),
            took=took,
            replayed=self._replayed,
        )


def open_listener() -> socket.socket:
    """A socket of its own, on which connections queue from now on."""
    return socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
