"""The world of one schedule: its time, its dice, and who goes on next."""

from __future__ import annotations

import random
from collections import Counter
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from greenlet import getcurrent  # type: ignore[import-untyped]

from duly.core.errors import InProgress
from verification.simulation.errors import Endless, Violation
from verification.simulation.nemesis import Nemesis
from verification.simulation.processes import Process
from verification.simulation.requests import NEVER
from verification.simulation.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Callable

    from verification.simulation.database import Database
    from verification.simulation.requests import Request

# Microseconds that one step takes.
STEP = 100
# Where both clocks begin. The one that never jumps is far from zero, as on a machine that is up.
UPTIME = 100_000 * 1_000_000
MIDNIGHT = 1_767_225_600 * 1_000_000 - UPTIME  # 2026-01-01, UTC
# How often a slow process is passed over, and time passes although a process could go on.
PATIENCE = 0.8
TIME_PASSES = 0.01
MOST_STEPS = 60_000
# Steps that a story tells by their names; the others say more of themselves.
TOLD = ("BEGIN", "COMMIT", "charge", "deliver", "look")


class Due(Protocol):
    """Something with a time of its own."""

    def due(self) -> None:
        """Its time has come."""


class Alarm:
    """A call of the world's own, which no process can be late for."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call

    def due(self) -> None:
        """Make it."""
        self._call()


class World:
    """Who is there, what they wait for, and what time it is."""

    def __init__(self, seed: int, database: Database) -> None:
        self.seed = seed
        # What the schedule draws, and what duly draws: tokens, ids, jitter.
        self.dice = random.Random(seed)  # a schedule is to be repeated
        self.noise = random.Random(f"noise {seed}")
        self.database = database
        self.hub: Any = getcurrent()
        self.now = UPTIME
        # What the wall clock is ahead of the other one.
        self.ahead = MIDNIGHT
        self.asked: list[Request] = []
        self.steps = 0
        self.trace: list[tuple[int, str, str]] = []
        # How often each fault was done, and each thing happened that should happen now and then.
        self.faults: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()
        # Errors that no code of duly's has heard.
        self.complaints: list[str] = []
        # A promise that was seen broken in code whose errors are caught.
        self.broken: Violation | None = None
        self.processes: list[Process] = []
        self.outside = Process(self, "the world")
        self.told: list[tuple[int, str, str]] | None = None
        self.nemesis = Nemesis(self)
        self.scene = Scene(self)
        self._timers: list[tuple[int, int, Due]] = []
        self._numbers = count()

    @property
    def wall(self) -> int:
        """Microseconds since 1970, as the machine's clock shows them."""
        return self.now + self.ahead

    def tell(self, who: object, what: str) -> None:
        """Add a line to the story, if it is told."""
        if self.told is not None:
            self.told.append((self.now, str(who), what))

    def at(self, time: int, thing: Due) -> None:
        """Have something happen at a time."""
        heappush(self._timers, (time, next(self._numbers), thing))

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        """Have something happen in the world outside, after so many seconds."""
        self.at(self.now + int(seconds * 1_000_000), Alarm(call))

    def process(self, name: str) -> Process:
        """A process that begins now."""
        process = Process(self, name)
        self.processes.append(process)
        return process

    def forget(self, process: Process) -> None:
        """Drop the requests of a process, and roll back its transaction."""
        self.asked = [one for one in self.asked if one.process is not process]
        self.database.forget(process)

    def crash(self, process: Process) -> None:
        """Kill a process."""
        self.tell(process, "is killed")
        self.trace.append((self.now, process.name, "killed"))
        process.die()

    def withdraw(self, request: Request) -> None:
        """Drop a request that is not wanted any more."""
        if request.waits:
            request.waits = False
            self.asked.remove(request)

    def step(self) -> None:
        """Let one thing happen."""
        if self.broken is not None:
            raise self.broken
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Endless(f"this schedule has not ended after {MOST_STEPS:,} steps")
        self.now += STEP
        self.nemesis.strike()
        timers = self._timers
        while timers and timers[0][0] <= self.now:
            heappop(timers)[2].due()
        able = self._able()
        if able and self.dice.random() >= TIME_PASSES:
            self._perform(able[int(self.dice.random() * len(able))])
        elif timers:
            self.now = max(self.now, min(timers[0][0], self._patience()))
        elif not able:
            raise Endless("every process waits for something that never happens")

    def _able(self) -> list[Request]:
        """Return what can be done now: one write lock, and nothing of stopped processes."""
        able = [one for one in self.asked if not one.process.stalled]
        if self.database.holder is not None:
            for one in able:
                if one.lock and one.until <= self.now:
                    self._lose_patience(one)
            # A process that was told so may have withdrawn its other requests.
            able = [one for one in able if not one.lock and one in self.asked]
        if len(able) > 1:
            quick = [one for one in able if not one.process.slow]
            if quick and self.dice.random() < PATIENCE:
                return quick
        return able

    def _patience(self) -> int:
        """Return when the first wait for the write lock ends."""
        if self.database.holder is None:
            return NEVER
        waiting = (one.until for one in self.asked if one.lock and not one.process.stalled)
        return min(waiting, default=NEVER)

    def _lose_patience(self, request: Request) -> None:
        """End a wait for the write lock: another process has it."""
        self.withdraw(request)
        self.seen["waits for the lock that ended"] += 1
        request.tell(None, InProgress("another connection holds SQLite's only write lock"))

    def _perform(self, request: Request) -> None:
        self.asked.remove(request)
        self.trace.append((self.now, request.process.name, request.label))
        if self.told is not None and request.label in TOLD:
            self.tell(request.process, request.label)
        request.perform()

    def take_apart(self) -> None:
        """Free everything; the schedule is over."""
        for process in [*self.processes, self.outside]:
            process.alive = False
        for process in [*self.processes, self.outside]:
            process.take_apart()
        self.asked = []
        self._timers = []
