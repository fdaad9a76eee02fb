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

from duly.demo import beside, inside
from duly.demo.books import read_books
from duly.demo.crew import Crew, Role
from duly.demo.databases import Left, PostgresDatabase, Unreachable, database_of
from duly.demo.display import Phase, Scene
from duly.demo.events import Catalog
from duly.demo.evidence import gathered
from duly.demo.ledger import audited
from duly.demo.nemesis import Nemesis
from duly.demo.operator import replay_victims
from duly.demo.shared import Place, Shared
from duly.demo.world import DOWNSTREAM, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.demo.books import Books
    from duly.demo.crew import Faults
    from duly.demo.databases import Look, SqliteDatabase
    from duly.demo.display import Display
    from duly.demo.evidence import Evidence
    from duly.demo.ledger import Line
    from duly.demo.settings import Settings

# Seconds between two turns of whoever directs it.
TICK = 0.02
# Seconds between two looks at the database.
LOOK = 0.75
# Seconds without any progress, after which what is left counts as lost.
STALLED = 90.0
BACKLOG = 4096
NOTHING = Left(jobs=0, messages=0)


class Took(NamedTuple):
    """How long it took: the storm itself, all of it, and the processors' time by purpose."""

    stormed: float
    whole: float
    used: dict[str, float]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a storm has shown."""

    lines: list[Line]
    evidence: Evidence
    books: Books
    faults: Faults
    nemesis: dict[str, int]
    lost: tuple[int, int]
    """Answers and requests that were lost on the way to the database and back."""
    took: Took
    replayed: int
    """Jobs that a person replayed: lost with five workers, by no fault of their own."""

    @property
    def wrong(self) -> list[Line]:
        """The lines that do not balance."""
        return [line for line in self.lines if not line.balances]


class Play:
    """Brings everybody together."""

    def __init__(self, settings: Settings, display: Display, hurried: Callable[[], bool]) -> None:
        self._settings = settings
        self._display = display
        self._hurried = hurried
        self._shared = Shared()
        self._database: SqliteDatabase | PostgresDatabase = database_of(settings)
        self._world = World(
            settings, self._shared, listening(), listening(), listening(), os.pipe()
        )
        self._begun = 0.0
        self._looked = 0.0
        self._moved = 0.0
        self._seen: Look | None = None
        self._left: Left | None = None
        self._samples: deque[tuple[float, int]] = deque()
        self._replayed = 0

    def run(self) -> Outcome:
        """All of it."""
        try:
            self._database.prepare()
            return self._prepared()
        finally:
            for end in (self._world.ingress, self._world.downstream, self._world.proxy):
                end.close()
            for pipe in self._world.lifeline:
                os.close(pipe)

    def _prepared(self) -> Outcome:
        """All of it, on tables that are there; they stay where somebody will want to see them."""
        keep = self._settings.keep
        try:
            outcome = self._run()
            keep = keep or bool(outcome.wrong)
            return outcome
        finally:
            if not keep:
                with suppress(Unreachable):  # it can be seen in the database, and is told there
                    self._database.clear()

    def _run(self) -> Outcome:
        self._begun = time.monotonic()
        with Crew(self._world) as crew:
            self._hire(crew)
            nemesis = Nemesis(
                self._settings, self._shared, crew, self._database, self._world.file("nemesis.log")
            )
            stormed = self._storm(crew, nemesis)
            self._drain(crew)
            crew.finish(Role.INGRESS, Role.WORKER, Role.RELAY)
            crew.finish(Role.BESIDE)
            killed = crew.killed
            used = dict(crew.used)
            faults = crew.faults
        return self._audit(killed, faults, nemesis, Took(stormed, self._passed(), used))

    def _hire(self, crew: Crew) -> None:
        settings, url = self._settings, self._settings.url
        crew.add(DOWNSTREAM, Role.BESIDE, beside.listen)
        wire = url
        if isinstance(self._database, PostgresDatabase):
            server = self._database.server
            if server is not None:
                crew.add("proxy", Role.BESIDE, partial(beside.carry, server=server))
                wire = self._database.by_way_of(self._world.proxy.getsockname()[1])
        # Every second one goes over the wire on which answers get lost.
        for at in range(settings.ingress):
            by = wire if at % 2 == 0 else url
            crew.add(f"ingress-{at}", Role.INGRESS, partial(inside.receive, url=by))
        for at in range(settings.workers):
            by = wire if at % 2 == 0 else url
            crew.add(f"worker-{at}", Role.WORKER, partial(inside.work, url=by))
        for at in range(settings.relays):
            crew.add(f"relay-{at}", Role.RELAY, partial(inside.relay, url=wire))
        crew.add("sender", Role.BESIDE, beside.send, ends=True)

    def _storm(self, crew: Crew, nemesis: Nemesis) -> float:
        """Deliver and do harm, for as long as it was asked for or until hurried."""
        shared, length = self._shared, self._settings.seconds
        while not shared[Place.STREAM_OVER]:
            passed = self._passed()
            if self._hurried() or (length is not None and passed >= length):
                shared[Place.END_STREAM] = 1
            nemesis.act(passed)
            shared[Place.CONTENT] = nemesis.content
            self._turn(crew, Phase.STORM)
        shared[Place.CALM] = 1
        nemesis.rest(self._passed())
        return self._passed()

    def _drain(self, crew: Crew) -> None:
        """No more harm and no new events: until everything is done, or nothing moves any more."""
        if isinstance(self._database, PostgresDatabase):
            self._database.wait()
        self._moved = time.monotonic()
        while time.monotonic() - self._moved < STALLED:
            self._turn(crew, Phase.DRAIN)
            if self._shared[Place.SENDER_DONE] and self._left == NOTHING and not self._replay():
                return

    def _replay(self) -> int:
        """Have somebody look at the dead letters; how many of them are tried once more."""
        books = self._world.file("sender.json")
        found = replay_victims(self._settings, self._database, books)
        self._replayed += found
        self._left = None
        return found

    def _turn(self, crew: Crew, phase: Phase) -> None:
        crew.tend()
        time.sleep(TICK)
        now = time.monotonic()
        if now - self._looked > LOOK:
            self._looked = now
            self._look(now)
        self._show(crew, phase)

    def _look(self, now: float) -> None:
        try:
            seen = self._database.look()
            left = self._database.left() if self._shared[Place.SENDER_DONE] else None
        except Unreachable:
            return
        if (seen, left) != (self._seen, self._left) or left is None:
            self._moved = now
        self._seen, self._left = seen, left
        self._shared[Place.ENDED] = seen.handled + seen.dead
        self._samples.append((now, self._shared[Place.SENT]))
        while len(self._samples) > 2 and self._samples[0][0] < now - 2.0:
            self._samples.popleft()

    def _passed(self) -> float:
        return time.monotonic() - self._begun

    def _rate(self) -> float:
        if len(self._samples) < 2:
            return 0.0
        (since, before), (now, sent) = self._samples[0], self._samples[-1]
        return (sent - before) / max(now - since, TICK)

    def _show(self, crew: Crew, phase: Phase) -> None:
        self._display.show(
            Scene(
                phase=phase,
                elapsed=self._passed(),
                settings=self._settings,
                slots=crew.of(Role.INGRESS, Role.WORKER, Role.RELAY),
                numbers=self._shared,
                rate=self._rate(),
                faults=crew.faults,
                seen=self._seen,
            )
        )

    def _audit(self, killed: set[int], faults: Faults, nemesis: Nemesis, took: Took) -> Outcome:
        books = read_books(self._world.file("sender.json"))
        catalog = Catalog(self._settings.seed, books.calm_from)
        evidence = gathered(
            self._database,
            self._settings.folder,
            killed,
            lambda number: catalog.event(number).amount,
        )
        evidence.leftovers = self._database.leftovers()
        evidence.replayed = self._replayed
        shared = self._shared
        return Outcome(
            lines=audited(evidence, books, catalog, faults),
            evidence=evidence,
            books=books,
            faults=faults,
            nemesis=dict(nemesis.done),
            lost=(shared[Place.REPLIES_LOST], shared[Place.REQUESTS_LOST]),
            took=took,
            replayed=self._replayed,
        )


def listening() -> socket.socket:
    """A socket of its own, on which connections queue from now on."""
    return socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
