"""Many jobs of every kind, and workers that die all the while; then the books are balanced."""

import random
import signal
import time
from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import duly
from tests.receiver.faults.books import Books
from tests.support.processes import Led, until
from tests.worker.faults.kinds import KINDS, workshop
from tests.worker.faults.ledgers import Ledger

# Kinds are enqueued in so many rounds, so that workers have some of each at all times.
ROUNDS = 20
LOOK = 0.05
# Seconds without the end of a job or of a worker: then nothing will happen any more.
STALLED = 60.0


class Storm:
    """Workers on one database. ``beside`` leads past whatever stands between them and it."""

    def __init__(self, url: str, *, workers: int, lease: float = 2.0, beside: str = "") -> None:
        self.url = url
        with duly.store(beside or url):
            self.ledger = Ledger(beside or url)
            self.ledger.prepare()
        self._lease = str(lease)
        self.enqueued: dict[str, str] = {}
        self.crew = [self._start() for _ in range(workers)]
        self.killed = self.fallen = 0

    def _start(self) -> Led:
        return Led("tests.worker.faults.kinds", self.url, self._lease)

    def enqueue(self, sizes: Mapping[str, int]) -> None:
        """So many jobs of each kind, in turns."""
        app = workshop(self.ledger.url)
        for turn in range(ROUNDS):
            for name, size in sizes.items():
                share = size * (turn + 1) // ROUNDS - size * turn // ROUNDS
                for made in app.enqueue_many(name, [None] * share):
                    self.enqueued[made.id] = name
        app.close()

    def run(self, *, kills: int = 0) -> None:
        """Kill workers until nothing is left to do; each that dies is replaced."""
        most = self.ledger.left()
        seen, deadline = (0, 0), 0.0
        while left := self.ledger.left():
            if seen != (left, self.fallen):
                seen, deadline = (left, self.fallen), time.monotonic() + STALLED
            assert time.monotonic() < deadline, f"{left} jobs never end"
            if self.killed < kills and left <= most * (1 - (self.killed + 1) / (kills + 1)):
                self.kill()
            self.mourn()
            self.ledger.hurry()
            time.sleep(LOOK)
        assert self.killed == kills, "it was over before it was hard"

    def until_left(self, count: int) -> None:
        """Wait until no more than so many jobs are left."""
        until(lambda: self.ledger.left() <= count or None)

    def kill(self) -> None:
        """Kill one worker, and start another in its place."""
        worker = random.choice(self.crew)
        worker.kill()
        self._replace(worker)
        self.killed += 1

    def mourn(self) -> None:
        """Start another worker for each that a job has killed."""
        for worker in [worker for worker in self.crew if not worker.lives]:
            assert worker.ended() == -signal.SIGKILL, "it ended otherwise"
            self._replace(worker)
            self.fallen += 1

    def _replace(self, worker: Led) -> None:
        self.ledger.bury(worker.pid)
        self.crew[self.crew.index(worker)] = self._start()

    def check(self) -> None:
        """Every job ended as its kind demands, once, with its effects; and nothing else did."""
        ends, effects = self.ledger.ends(), self.ledger.effects()
        given = self.ledger.given()
        leases = Counter(job for job, _, _ in given)
        assert self.ledger.breaches() == []
        assert len({end.id for end in ends}) == len(ends), "a job ended twice"
        assert {end.id for end in ends if end.name != "invoice"} == set(self.enqueued)
        names = Counter(end.name for end in ends)
        assert names["invoice"] == names["order"], "not one child for each parent"
        assert set(effects) <= {end.id for end in ends}, "an effect from nowhere"
        for end in ends:
            kind = KINDS[end.name]
            assert (end.ends, end.attempts) == (kind.ends, kind.attempts), (end, leases[end.id])
            assert kind.rescues in (None, end.rescues), end
            least, most = {
                "once": (1, 1), "at least once": (1, leases[end.id]), "none": (0, 0),
            }[kind.effects]  # fmt: skip
            assert least <= effects[end.id] <= most, (end, effects[end.id], leases[end.id])
        assert len({token for _, _, token in given}) == len(given), "a token twice"
        assert len({(job, epoch) for job, epoch, _ in given}) == len(given), "an epoch twice"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self.crew:
            worker.kill()
        try:
            if problem is None:
                self.check()
        finally:
            self.ledger.close()
        if problem is None and self.url == self.ledger.url:
            Books(self.url).alone()  # a pooler keeps connections, and they are its own
