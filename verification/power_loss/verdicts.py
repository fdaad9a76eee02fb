"""Looks at states one after the other, and says which promises each of them breaks."""

from __future__ import annotations

import logging
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from verification.power_loss.looking import SqliteFile, broken
from verification.power_loss.promises import World, world_after
from verification.power_loss.recovery import recover
from verification.power_loss.states import cuts

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from verification.power_loss.record import Record
    from verification.power_loss.states import Cut

# Memory, where there is such a folder: what is looked at here has survived its power cut already.
MEMORY = Path("/dev/shm")  # a private folder is made in it


@dataclass(frozen=True, slots=True)
class Finding:
    """A promise that a state breaks."""

    state: int
    cut: str
    problem: str

    def __str__(self) -> str:
        return f"state {self.state}, {self.cut}: {self.problem}"


@dataclass(slots=True)
class Verdict:
    """What became of some states.

    Args:
        flows: how many states there were in each flow.
        recovered: the different databases that they were after SQLite's recovery, and that duly
            was let loose on.
        findings: what was wrong.
    """

    flows: dict[str, int] = field(default_factory=dict)
    recovered: set[bytes] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)

    @property
    def states(self) -> int:
        """How many were looked at."""
        return sum(self.flows.values())

    def add(self, other: Verdict) -> None:
        """Take in what somebody else found."""
        for flow, times in other.flows.items():
            self.flows[flow] = self.flows.get(flow, 0) + times
        self.recovered |= other.recovered
        self.findings += other.findings


@dataclass(slots=True)
class Survivor:
    """The last state that SQLite brought back to one and the same database."""

    cut: str
    number: int
    told: int
    files: dict[str, bytes]


def judge(
    record: Record,
    wanted: Container[int],
    *,
    recovered_every: int = 1,
    looked: Callable[[], None] = lambda: None,
) -> Verdict:
    """Look at the states with these numbers, and bring back each different database in them.

    Two states that SQLite recovers to the same bytes are one database: duly is let loose on it
    once, knowing all that the world had been told by then.
    """
    verdict, survivors = Verdict(), dict[bytes, Survivor]()
    with scratch() as database:
        for cut, world in with_world(record):
            if cut.number not in wanted:
                continue
            files = cut.files()
            database.lay_out(files)
            seen = database.look()
            verdict.flows[cut.flow] = verdict.flows.get(cut.flow, 0) + 1
            for problem in broken(seen, world):
                verdict.findings.append(Finding(cut.number, str(cut), problem))
            if seen.digest:
                survivors[seen.digest] = Survivor(str(cut), cut.number, cut.told, files)
            looked()
        for digest, survivor in list(survivors.items())[::recovered_every]:
            verdict.recovered.add(digest)
            verdict.findings += brought_back(survivor, record, database)
    return verdict


def with_world(record: Record) -> Iterator[tuple[Cut, World]]:
    """Each cut with what the world knew."""
    told, world, heard = record.told, World(), 0
    for cut in cuts(record):
        for words in told[heard : cut.told]:
            world.hear(*words)
        heard = cut.told
        yield cut, world


def brought_back(survivor: Survivor, record: Record, database: SqliteFile) -> Iterator[Finding]:
    """Let duly open a state as the power left it, and finish everything."""
    database.lay_out(survivor.files)
    world = world_after(record.told[: survivor.told])
    try:
        problems = list(recover(database, world))
    except Exception as problem:  # whatever it is, it is what this looks for
        problems = [f"recovery failed: {type(problem).__name__}: {problem}"]
    for text in problems:
        yield Finding(survivor.number, survivor.cut, f"after recovery {text}")


@contextmanager
def scratch() -> Iterator[SqliteFile]:
    """A place for one state after the other."""
    parent = MEMORY if MEMORY.is_dir() else None
    with quiet(), tempfile.TemporaryDirectory(prefix="duly-power-", dir=parent) as name:
        yield SqliteFile(Path(name))


@contextmanager
def quiet() -> Iterator[None]:
    """Without duly's own warnings, which are expected here."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
