"""The measurement: the points of an axis take turns, round by round, each on its own database.

In a turn, a load meets the server of the point; then workers drain the jobs of what was accepted.
A reply that is no acceptance makes the row invalid, and a job that is left or done twice ends the
run. A figure is the median of its rounds.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import psycopg
from tests.support.servers.databases import database, database_of

import duly
from benchmarks.growing.axes import AIM, BASE, FREE
from benchmarks.growing.draining import drained
from benchmarks.growing.filling import add_jobs, count_jobs, fill, settle
from benchmarks.ingesting.contenders import SERVED, Contender
from benchmarks.ingesting.processes import serving
from benchmarks.processor import postmaster_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.growing.axes import Point
    from benchmarks.growing.draining import Drained
    from benchmarks.ingesting.generator import Found
    from benchmarks.ingesting.processes import Served

# Of each server process: people add processes where there is more to do.
CONNECTIONS = 64


@dataclass(frozen=True, slots=True)
class Pace:
    """How many rounds, how long a load, and how many jobs are drained at least."""

    rounds: int
    seconds: float
    warm_up: float
    jobs: int


class Figures(NamedTuple):
    """Medians of one kind of work: a second, and seconds of processor time for each."""

    rate: float
    own: float  # the server's, or the workers'
    postgres: float

    @property
    def cost(self) -> float:
        """Both together."""
        return self.own + self.postgres


@dataclass(slots=True)
class Row:
    """One point, and all its rounds."""

    point: Point
    loads: list[Found] = field(default_factory=list)
    drains: list[Drained] = field(default_factory=list)

    @property
    def others(self) -> list[str]:
        """What was answered instead of an acceptance."""
        return sorted({what for one in self.loads for what in one["others"]})

    @property
    def valid(self) -> bool:
        """Whether every reply was an acceptance, and there was one."""
        return not self.others and min(one["accepted"] for one in self.loads) > 0

    @property
    def ingest(self) -> Figures:
        """What a delivery costs."""
        each = [max(one["accepted"], 1) for one in self.loads]
        loads = list(zip(self.loads, each, strict=True))
        return Figures(
            median(one["accepted"] / one["seconds"] for one in self.loads),
            median(one["spent"][0] / number for one, number in loads),
            median(one["spent"][1] / number for one, number in loads),
        )

    @property
    def drain(self) -> Figures:
        """What a job costs."""
        return Figures(
            median(one.jobs / one.seconds for one in self.drains),
            median(one.workers / one.jobs for one in self.drains),
            median((one.postgres or 0.0) / one.jobs for one in self.drains),
        )


class Growth(NamedTuple):
    """How many times the cost at the largest point of an axis is that at the smallest."""

    name: str
    ratio: float
    aim: float | None

    @property
    def met(self) -> bool | None:
        """Whether it stays within the aim; None without one."""
        return None if self.aim is None else self.ratio <= self.aim


def growths(rows: Sequence[Row]) -> Iterator[Growth]:
    """Of each axis, for deliveries and for jobs."""
    for axis in dict.fromkeys(row.point.axis for row in rows):
        of_axis = [row for row in rows if row.point.axis == axis]
        least, most = of_axis[0], of_axis[-1]
        aim = None if axis == FREE else AIM
        if least.valid and most.valid:
            yield Growth(f"{axis}/ingest", most.ingest.cost / least.ingest.cost, aim)
            yield Growth(f"{axis}/drain", most.drain.cost / least.drain.cost, aim)


class Contest:
    """All points on one server."""

    def __init__(self, admin_url: str, pace: Pace, tell: Callable[[str], None]) -> None:
        self._admin_url = admin_url
        self._pace = pace
        self._tell = tell
        self.postmaster = postmaster_of(admin_url)

    def run(self, axes: Sequence[Sequence[Point]]) -> list[Row]:
        """Every row, axis by axis."""
        with database(self._admin_url) as base:
            self._make(base)
            return [row for points in axes for row in self._measured(points, database_of(base))]

    def _make(self, url: str) -> None:
        """The tables, with rows that duly itself wrote, and as many of them as every point has."""
        duly.store(url).migrate()
        with serving(Contender("postgres", SERVED, handlers=BASE.handlers), url) as served:
            served.meet(1, seconds=0.05, warm_up=0.05, size=BASE.size)
        self._drained(BASE, url, 1)
        with psycopg.connect(url, autocommit=True) as connection:
            settle(connection)
        self._fill(url, 0, BASE.rows)

    def _measured(self, points: Sequence[Point], base: str) -> list[Row]:
        rows = [Row(point) for point in points]
        with ExitStack() as stack:
            opened = [self._opened(stack, point, base) for point in points]
            for place in range(self._pace.rounds):
                pairs = list(zip(opened, rows, strict=True))
                for served, row in pairs if place % 2 == 0 else reversed(pairs):
                    self._turn(served, row)
        return rows

    def _opened(self, stack: ExitStack, point: Point, base: str) -> Served:
        url = stack.enter_context(database(self._admin_url, base))
        self._fill(url, BASE.rows, point.rows)
        contender = Contender(
            "postgres", SERVED, handlers=point.handlers, processes=point.processes
        )
        return stack.enter_context(serving(contender, url, postmaster=self.postmaster))

    def _fill(self, url: str, there: int, wanted: int) -> None:
        if wanted > there:
            self._tell(f"making {wanted - there:,} rows")
            fill(url, there + 1, wanted)

    def _turn(self, served: Served, row: Row) -> None:
        """One load and one drain."""
        pace = self._pace
        connections = CONNECTIONS * row.point.processes
        load = served.meet(connections, pace.seconds, pace.warm_up, row.point.size)
        row.loads.append(load)
        with psycopg.connect(served.url) as connection:
            jobs = count_jobs(connection)
        if jobs != load["kept"]:
            raise AssertionError(f"{row.point.name}: {load['kept']} accepted, but {jobs} jobs")
        row.drains.append(self._drained(row.point, served.url, pace.jobs))
        last = row.drains[-1]
        self._tell(
            f"{row.point.name}: {load['accepted'] / load['seconds']:,.0f} deliveries/s, "
            f"{last.jobs / last.seconds:,.0f} jobs/s"
        )

    def _drained(self, point: Point, url: str, least: int) -> Drained:
        """Drain what there is, made up to so many jobs."""
        return drained(
            url,
            jobs=add_jobs(url, least),
            processes=point.processes,
            handlers=point.handlers,
            postmaster=self.postmaster,
        )
