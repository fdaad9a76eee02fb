"""The measurement: all contenders of a store are up at once and take turns, round by round.

Whatever disturbs the machine then disturbs them all alike. A row is the median of its rounds. A
reply that is no acceptance makes its row invalid, and at the end each database must hold as many
events and jobs as were accepted: a fast wrong answer is not a rate.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.ingesting.processes import ROOT, Served, serving
from benchmarks.ingesting.tables import kept, make

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.ingesting.contenders import Contender
    from benchmarks.ingesting.generator import Found

SERVER = "DULY_TEST_POSTGRES"
# Not the folder for temporary files: on many machines it is memory, where a commit costs nothing.
DISK = ROOT / ".cache"


@dataclass(frozen=True, slots=True)
class Pace:
    """How long to measure, and with what."""

    rounds: int
    seconds: float
    warm_up: float
    size: str


@dataclass(slots=True)
class Seen:
    """All rounds of one contender at one number of connections."""

    contender: Contender
    connections: int
    rounds: list[Found] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Accepted deliveries per second."""
        return median(one["accepted"] / one["seconds"] for one in self.rounds)

    def row(self) -> Row:
        """What the rounds come to."""
        others: Counter[str] = Counter()
        for one in self.rounds:
            others.update(one["others"])
        return Row(
            name=self.contender.row(self.connections),
            rate=self.rate,
            p50=median(one["p50"] for one in self.rounds),
            p99=median(one["p99"] for one in self.rounds),
            load=max(one["busy"] for one in self.rounds),
            pool=self.contender.pool,
            others=dict(others),
        )


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report: a rate, two latencies in seconds, and what was no acceptance."""

    name: str
    rate: float
    p50: float
    p99: float
    load: float
    pool: int = 0
    others: dict[str, int] = field(default_factory=dict)

    @property
    def valid(self) -> bool:
        """Whether every reply was an acceptance, and there was one."""
        return not self.others and self.rate > 0


def measured(
    wanted: Sequence[Contender],
    connections: Sequence[int],
    pace: Pace,
    tell: Callable[[Seen], None],
) -> list[Row]:
    """The rows of the contenders of one store, the best pool's where there are several."""
    with ExitStack() as stack:
        served = [stack.enter_context(opened(contender)) for contender in wanted]
        accepted: Counter[Contender] = Counter()
        rows: list[Row] = []
        for number in connections:
            seen = [Seen(one.contender, number) for one in served]
            for place in range(pace.rounds):
                pairs = list(zip(served, seen, strict=True))
                for one, its in pairs if place % 2 == 0 else reversed(pairs):
                    found = one.meet(number, pace.seconds, pace.warm_up, pace.size)
                    accepted[one.contender] += found["kept"]
                    its.rounds.append(found)
                    tell(its)
            rows += best(seen)
        for one in served:
            judge(one, accepted[one.contender])
        return rows


def best(seen: Sequence[Seen]) -> list[Row]:
    """One row for each name: the fastest of those that share it."""
    fastest: dict[str, Seen] = {}
    for one in seen:
        name = one.contender.row(one.connections)
        if name not in fastest or one.rate > fastest[name].rate:
            fastest[name] = one
    return [one.row() for one in fastest.values()]


def judge(served: Served, accepted: int) -> None:
    """End the run over an acceptance that was not kept, or a row that nobody sent."""
    if served.contender.keeps and kept(served.url, served.contender.peer) != (accepted, accepted):
        events, jobs = kept(served.url, served.contender.peer)
        raise AssertionError(
            f"{served.contender}: {accepted} accepted, but {events} events and {jobs} jobs are kept"
        )


@contextmanager
def opened(contender: Contender) -> Iterator[Served]:
    """A contender's server, on a database that goes with the run."""
    with ExitStack() as stack:
        url = stack.enter_context(database_for(contender))
        if contender.keeps:
            make(url, contender.peer)
        yield stack.enter_context(serving(contender, url))


@contextmanager
def database_for(contender: Contender) -> Iterator[str]:
    """The URL of an empty database."""
    if contender.store == "postgres":
        from tests.support.servers import database

        with database(os.environ[SERVER]) as url:
            yield url
        return
    DISK.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=DISK, prefix="ingest-") as folder:
        yield f"sqlite:///{Path(folder) / 'events.db'}"
