"""One database, workers at their gates, and a test that stops, kills and frees them."""

import selectors
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import duly
from tests.receiver.faults.doors import WAYS
from tests.receiver.faults.shops import signed
from tests.support.processes import Led, until
from tests.support.processes.leading import PATIENCE
from tests.worker.faults.gated import MODULE, Gate, gated
from tests.worker.faults.ledgers import Ledger

LEASE = 0.4
# Of a worker that may not lose its lease because a busy machine forgets it for a while.
STEADY = 30.0


class Bench:
    """The test's own application on the database, and its view of what the workers did."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.app = gated(url, Gate(opened=True))
        with duly.store(url):
            self.ledger = Ledger(url)
            self.ledger.prepare()

    @contextmanager
    def worker(self, gate: str, lease: float = LEASE) -> Iterator[Led]:
        """A worker process; killed at the end."""
        with Led(MODULE, self.url, str(lease), gate) as started:
            yield started

    def deliver(self, kind: str) -> None:
        """Receive an event, which makes a job."""
        door = WAYS["wsgi"](self.app)
        assert door.send(signed(f"evt_{kind}", kind)).result(PATIENCE).said == "accepted"
        door.close()

    def done(self, count: int = 1) -> None:
        """Wait until so many jobs are done, and none is left."""
        until(lambda: (self._done() == count and self.ledger.left() == 0) or None)

    def _done(self) -> int:
        [(count,)] = self.ledger.ask("SELECT count(*) FROM duly_history WHERE outcome = 'done'")
        return int(count)

    def stop(self, worker: Led) -> None:
        """Stop it where it stands, but not while a heartbeat of its holds SQLite's only lock."""
        worker.pause()
        while self.ledger.is_sqlite and not free(self.url):
            worker.go_on()
            worker.pause()

    def bury(self, worker: Led) -> None:
        """Let its lease have run out, now: others take its jobs."""
        self.ledger.bury(worker.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.app.close()
        if problem is None:
            assert self.ledger.breaches() == []
        self.ledger.close()


def free(url: str) -> bool:
    """Whether nobody holds the write lock of a SQLite file."""
    file = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, timeout=0)
    try:
        file.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return False
    finally:
        file.close()
    return True


def hear(worker: Led, words: str) -> None:
    """Wait until it says this; whatever else it says is let go by."""
    with selectors.DefaultSelector() as ready:
        ready.register(worker.replies, selectors.EVENT_READ)
        while True:
            assert ready.select(PATIENCE), f"it never said {words!r}"
            said = worker.reply()
            assert said is not None, f"it ended and never said {words!r}"
            if words in said:
                return
