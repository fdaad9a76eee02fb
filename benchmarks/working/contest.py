"""The measurement: every contender in turn, round by round, each time on a fresh database.

Whatever disturbs the machine then disturbs them all alike, and nobody works in what an earlier run
has left behind. A figure is the median of its rounds. A job that was not done, or done twice, ends
the contender's part: a fast wrong answer is not a rate.
"""

from __future__ import annotations

import random
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import TYPE_CHECKING

from tests.support.servers.databases import database, database_of

from benchmarks.working import figures
from benchmarks.working.contenders import BULK
from benchmarks.working.processes import Playing, TurnFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.working.playing import Kind

# So long a worker is left alone before the next job, at least and at most: it must be idle again.
# One that polls is met at any moment between two polls.
PAUSES = (0.03, 0.08)
WARM_UPS = 10


@dataclass(frozen=True, slots=True)
class Pace:
    """How many rounds, and how much in each."""

    rounds: int
    counts: dict[str, int]


@dataclass(slots=True)
class Row:
    """One line of the report: a contender, a measure, and every figure seen in each round."""

    name: str
    seen: dict[str, list[float]] = field(default_factory=dict)
    failure: str = ""

    def add(self, found: dict[str, float]) -> None:
        """Another round."""
        for what, figure in found.items():
            self.seen.setdefault(what, []).append(figure)

    @property
    def valid(self) -> bool:
        """Whether there is anything to compare."""
        return bool(self.seen) and not self.failure

    def of(self, what: str) -> float:
        """The median of one figure."""
        return median(self.seen[what])


class Contest:
    """All contenders on one server."""

    def __init__(self, admin_url: str, pace: Pace, tell: Callable[[str], None]) -> None:
        self._admin_url = admin_url
        self._pace = pace
        self._tell = tell
        self._server = figures.Server(admin_url)
        self._stack = ExitStack()
        # Databases to copy, by contender and by what is in them.
        self._templates: dict[tuple[str, Kind | None], str] = {}

    def run(self, playing: Sequence[Playing], measures: Sequence[str]) -> list[Row]:
        """Every row, those of one measure next to each other."""
        rows: list[Row] = []
        with self._stack:
            self._stack.callback(self._server.close)
            failures = [self._prepare(one) for one in playing]
            for measure in measures:
                pairs = [
                    (one, Row(f"{one.contender.name}/{measure}", failure=failure))
                    for one, failure in zip(playing, failures, strict=True)
                    if measure in one.contender.measures
                ]
                for place in range(self._pace.rounds):
                    for one, row in pairs if place % 2 == 0 else reversed(pairs):
                        self._measure(one, row, measure)
                rows += [row for _, row in pairs]
        return rows

    def _prepare(self, one: Playing) -> str:
        """Make the contender's tables once, for every round to copy; what went wrong, if so."""
        url = self._stack.enter_context(database(self._admin_url))
        try:
            one.at(url).take("prepare")
        except TurnFailed as failure:
            self._tell(str(failure))
            return str(failure)
        figures.make_tables(url)
        self._templates[one.contender.name, None] = database_of(url)
        return ""

    def _filled(self, one: Playing, kind: Kind) -> str:
        """The same with the jobs in it, enqueued once by the contender itself."""
        name = one.contender.name
        if (name, kind) not in self._templates:
            empty = self._templates[name, None]
            url = self._stack.enter_context(database(self._admin_url, empty))
            one.at(url).take("fill", kind)
            figures.make_accounts(url, one.counts["jobs"])
            self._templates[name, kind] = database_of(url)
        return self._templates[name, kind]

    def _measure(self, one: Playing, row: Row, measure: str) -> None:
        if row.failure:
            return
        measured = {
            "drain": self._drain_twice,
            "update": self._update,
            BULK: self._update_in_bulk,
            "enqueue": self._enqueue,
            "latency": self._latency,
        }
        try:
            found = measured[measure](one)
        except TurnFailed as failure:
            row.failure = str(failure)
            self._tell(row.failure)
            return
        row.add(found)
        self._tell(f"{row.name}: {', '.join(f'{what} {n:,.4g}' for what, n in found.items())}")

    @contextmanager
    def _fresh(self, one: Playing, kind: Kind | None = None) -> Iterator[Playing]:
        template = self._filled(one, kind) if kind else self._templates[one.contender.name, None]
        self._server.checkpoint()
        with database(self._admin_url, template) as url:
            yield one.at(url)

    def _drain_twice(self, one: Playing) -> dict[str, float]:
        """No-ops; then the same while somebody holds an old snapshot."""
        found = self._drain(one, "noop")
        with self._fresh(one, "noop") as fresh, figures.old_snapshot(fresh.url):
            held = self._drained(fresh, "noop")
        return {**found, "held": held}

    def _update(self, one: Playing) -> dict[str, float]:
        return self._drain(one, "update")

    def _update_in_bulk(self, one: Playing) -> dict[str, float]:
        return self._drain(one, BULK)

    def _drain(self, one: Playing, kind: Kind) -> dict[str, float]:
        """The rate, and what the server says of it, for each job."""
        with self._fresh(one, kind) as fresh:
            before = self._server.marks(database_of(fresh.url))
            rate = self._drained(fresh, kind)
            return {"rate": rate, **self._counted(fresh, before)}

    def _drained(self, fresh: Playing, kind: Kind) -> float:
        jobs = fresh.counts["jobs"]
        found = fresh.take("drain", kind)
        wrong = figures.wrong_accounts(fresh.url) if kind != "noop" else 0
        judge(fresh.contender.name, jobs, found["begun"], wrong)
        return float(jobs / found["seconds"])

    def _counted(self, fresh: Playing, before: figures.Marks) -> dict[str, float]:
        jobs = fresh.counts["jobs"]
        after = self._server.marks(database_of(fresh.url))
        return {
            "wal_bytes": (after.written - before.written) / jobs,
            "commits": (after.commits - before.commits) / jobs,
            "dead": figures.dead_rows(fresh.url),
        }

    def _enqueue(self, one: Playing) -> dict[str, float]:
        with self._fresh(one) as fresh:
            found: dict[str, float] = fresh.take("enqueue")
            return {"rate": found["one"], "within": found["within"], "bulk": found["bulk"]}

    def _latency(self, one: Playing) -> dict[str, float]:
        """From the call that enqueues until the job begins, in another process that is idle."""
        pauses = random.Random(1)
        taken = []
        with (
            self._fresh(one) as fresh,
            fresh.running("listen") as worker,
            fresh.running("send") as sender,
        ):
            for number in range(WARM_UPS + one.counts["samples"]):
                sender.tell(str(number))
                called = float(sender.next())
                job, begun = worker.next().split()
                if int(job) != number:
                    raise TurnFailed(f"{one.contender.name} began job {job}, not {number}")
                taken.append(float(begun) - called)
                time.sleep(pauses.uniform(PAUSES[0], PAUSES[1] + one.contender.polls))
        samples = taken[WARM_UPS:]
        return {"p50": median(samples), "p99": quantiles(samples, n=100, method="inclusive")[-1]}


def judge(name: str, jobs: int, begun: int, wrong: int) -> None:
    """Refuse a drain in which a job was not done, or done twice."""
    if begun != jobs:
        raise TurnFailed(f"{name} began {begun} jobs, and there were {jobs}")
    if wrong:
        raise TurnFailed(f"{name} did not update {wrong} of {jobs} rows once")
