"""Many schedules, one after the other, and the books over all of them."""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from collections import Counter
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from verification.simulation.application import application
from verification.simulation.database import Database
from verification.simulation.errors import Violation
from verification.simulation.schedules import played, silenced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# Schedules between two collections of garbage, which a schedule leaves behind in one piece.
COLLECT = 25
# Seeds that a process is given at a time.
HANDFUL = 100
# A campaign of so many schedules must have seen every fault and everything that is of interest.
ENOUGH = 2000
FAULTS = (
    *("crash", "stall", "clock set ahead", "restart", "restart in a hurry", "prune"),
    *("reply of a commit lost", "connection lost", "request cancelled"),
    *("request lost", "reply to a sender lost", "copy sent", "forged delivery", "body changed"),
    "body sent under another id",
    *("handler raises", "handler gives up", "handler kills its process"),
    *("effect declined", "effect fails", "effect's reply lost"),
    *("receiver fails", "receiver's reply lost", "receiver too slow", "receiver refuses"),
    "receiver asks for a pause",
)
THINGS = (
    *("answered accepted", "answered duplicate", "answered conflict", "answered 503"),
    *("conflicts recorded", "claims taken over", "fences that lost their lease"),
    *("jobs rescued", "jobs dead", "jobs replayed", "messages rescued", "messages dead"),
    *("messages sent again", "unknown effects looked up", "operations that were run again"),
    *("zombie acks tried", "zombie acks refused", "transactions of zombies rolled back"),
    *("waits for the lock that ended", "deliveries that were given up and sent again"),
    "messages that lost their lease",
    *("prunes that removed something", "runs that lost their lease"),
)


class Broken(NamedTuple):
    """A schedule that broke a promise."""

    seed: int
    promise: str
    told: str

    @property
    def reproduction(self) -> str:
        """The command that shows it again."""
        return f"python -m verification.simulation --replay {self.seed}"


class Tally(NamedTuple):
    """What happened in some schedules."""

    schedules: int
    steps: int
    faults: Counter[str]
    seen: Counter[str]
    broken: tuple[Broken, ...]
    seconds: float = 0.0

    def __add__(self, other: Any) -> Tally:
        return Tally(
            self.schedules + other.schedules,
            self.steps + other.steps,
            self.faults + other.faults,
            self.seen + other.seen,
            self.broken + other.broken,
            self.seconds + other.seconds,
        )

    @property
    def missing(self) -> list[str]:
        """What should have happened and never did, where there was room for it."""
        if self.schedules < ENOUGH:
            return []
        return [one for one in FAULTS if not self.faults[one]] + [
            one for one in THINGS if not self.seen[one]
        ]

    @property
    def good(self) -> bool:
        """Whether every promise was kept, and each of them was in danger."""
        fenced = self.seen["zombie acks tried"] == self.seen["zombie acks refused"]
        return not self.broken and not self.missing and fenced


NOTHING = Tally(0, 0, Counter(), Counter(), ())


@contextmanager
def theatre() -> Iterator[Database]:
    """A database that schedules are played on."""
    application()
    database = database_of(os.getpid())
    with silenced():
        yield database


@lru_cache(maxsize=1)
def database_of(process: int) -> Database:
    """The database of this process, made once: no connection may be used across a fork."""
    del process
    return Database()


def played_all(seeds: Sequence[int]) -> Tally:
    """Play these schedules in this process."""
    begun = time.perf_counter()
    steps, faults, seen = 0, Counter[str](), Counter[str]()
    broken: list[Broken] = []
    collects = gc.isenabled()
    gc.disable()
    try:
        with theatre() as database:
            gc.freeze()
            for number, seed in enumerate(seeds):
                if number % COLLECT == 0:
                    gc.collect()
                try:
                    verdict = played(seed, database)
                except Violation as problem:
                    broken.append(Broken(seed, problem.promise, problem.told))
                    continue
                except Exception as problem:  # of the schedule itself: it must not end the others
                    broken.append(Broken(seed, "none", f"the schedule failed: {problem!r}"))
                    continue
                steps += verdict.steps
                faults.update(verdict.faults)
                seen.update(verdict.seen)
    finally:
        gc.unfreeze()
        if collects:
            gc.enable()
    return Tally(len(seeds), steps, faults, seen, tuple(broken), time.perf_counter() - begun)


class Campaign(NamedTuple):
    """How many schedules, from which seed on, in how many processes of the machine."""

    schedules: int
    seed: int = 1
    processes: int = 1
    most_broken: int = 5

    def handfuls(self) -> Iterator[range]:
        """The seeds, some at a time."""
        end = self.seed + self.schedules
        for start in range(self.seed, end, HANDFUL):
            yield range(start, min(start + HANDFUL, end))

    def run(self, told: Callable[[Tally], None] = lambda _: None) -> Tally:
        """Play them all; ``told`` hears how far it is. Ends early where too much is broken."""
        begun = time.perf_counter()
        tally = NOTHING
        for some in self._tallies():
            tally += some
            tally = tally._replace(seconds=time.perf_counter() - begun)
            told(tally)
            if len(tally.broken) >= self.most_broken:
                break
        return tally

    def _tallies(self) -> Iterator[Tally]:
        if self.processes == 1:
            yield from map(played_all, self.handfuls())
            return
        with multiprocessing.get_context("fork").Pool(self.processes) as pool:
            yield from pool.imap(played_all, self.handfuls())
