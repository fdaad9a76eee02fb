"""The measurement: all contenders of a store are up at once and take turns, round by round.

Whatever disturbs the machine then disturbs them all alike. A row is the median of its rounds. A
reply that is no acceptance of the delivery that was sent makes its row invalid, and at the end
each database must hold as many events and jobs as were accepted, and the access log of `duly serve`
a line for each: a fast wrong answer is not a rate.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.ingesting.contenders import SERVED
from benchmarks.ingesting.processes import DISK, Served, serving
from benchmarks.ingesting.tables import kept, make
from benchmarks.processor import postmaster_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.ingesting.contenders import Contender
    from benchmarks.ingesting.generator import Found

SERVER = "DULY_TEST_POSTGRES"
# The line of a request that was accepted, in the log of `duly serve`; and how late it may come.
LOGGED, PATIENCE = b" 200 accepted ", 5.0


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
        times = [median(its) for its in zip(*map(per_delivery, self.rounds), strict=True)]
        return Row(
            name=self.contender.row(self.connections),
            rate=self.rate,
            p50=median(one["p50"] for one in self.rounds),
            p99=median(one["p99"] for one in self.rounds),
            load=max(one["busy"] for one in self.rounds),
            load_each=median(
                one["busy"] * one["seconds"] / max(one["accepted"], 1) for one in self.rounds
            ),
            server=times[0] if times else None,
            postgres=times[1] if times[1:] else None,
            pool=self.contender.pool,
            note=self.contender.note,
            others=dict(others),
        )


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report: a rate, times in seconds, and what was no acceptance."""

    name: str
    rate: float
    p50: float
    p99: float
    load: float  # the share of a core that the load itself used, at most
    # Processor time for each delivery: of the load, the server, and PostgreSQL where it is known.
    load_each: float = 0.0
    server: float | None = None
    postgres: float | None = None
    pool: int = 0
    note: str = ""
    others: dict[str, int] = field(default_factory=dict)

    @property
    def valid(self) -> bool:
        """Whether every reply was an acceptance, and there was one."""
        return not self.others and self.rate > 0


def per_delivery(found: Found) -> list[float]:
    """Processor time that one delivery took, in each process that was asked for."""
    return [one / max(found["accepted"], 1) for one in found["spent"]]


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
    """End the run over an acceptance that was not kept or logged, or a row that nobody sent."""
    if served.contender.keeps and kept(served.url, served.contender.peer) != (accepted, accepted):
        events, jobs = kept(served.url, served.contender.peer)
        raise AssertionError(
            f"{served.contender}: {accepted} accepted, but {events} events and {jobs} jobs are kept"
        )
    if served.contender.peer == SERVED and logged(served, accepted) != accepted:
        raise AssertionError(
            f"{served.contender}: {accepted} accepted, but {logged(served, accepted)} are logged"
        )


def logged(served: Served, accepted: int) -> int:
    """How many acceptances the access log has, once there is a line for each or time is up."""
    if served.log is None:
        return 0
    deadline = time.monotonic() + PATIENCE
    while (found := served.log.read_bytes().count(LOGGED)) < accepted:
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return found


@contextmanager
def opened(contender: Contender) -> Iterator[Served]:
    """A contender's server, on a database that goes with the run."""
    with ExitStack() as stack:
        url = stack.enter_context(database_for(contender))
        if contender.keeps:
            make(url, contender.peer)
        postmaster = postmaster_of(url) if contender.store == "postgres" else None
        yield stack.enter_context(serving(contender, url, postmaster=postmaster))


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
