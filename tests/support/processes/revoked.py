"""A process whose handlers go on with their statements while their connection is taken away.

It ends by itself; one that two threads meet in may end with a segmentation fault instead.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

import duly
from duly.core.defaults import WAIT
from duly.core.onestep import finish
from tests.support.processes.leading import PATIENCE

# Seconds that a handler works before it is given up, one after the other.
MOMENTS = [0.001 * (1 + number % 10) for number in range(16)]
WRITE = "INSERT INTO stuff VALUES (1)"


class Busy(threading.Thread):
    """A handler that catches every error, and works on until it is told that it can go."""

    def __init__(self, store: duly.types.Store) -> None:
        super().__init__(daemon=True)  # or an error of the test would wait for it
        self._store = store
        self.begun, self.enough = threading.Event(), threading.Event()
        self.opened: Any = None

    def run(self) -> None:
        """Never commits."""
        opening = self._store.sync_runner.open_transaction(wait=WAIT)
        self.opened = finish(opening.__aenter__())
        self.begun.set()
        while not self.enough.is_set():
            for statement in (WRITE, "SELECT count(*) FROM stuff"):
                with suppress(Exception):  # it does not care
                    self.opened.connection.execute(statement).fetchall()
        problem = ValueError("it never ends well")
        with suppress(Exception):  # that, or that its connection is gone
            finish(opening.__aexit__(ValueError, problem, None))


def main(url: str) -> None:
    """Give up one handler after the other, each in the middle of its work."""
    store = duly.store(url)
    with duly.Duly(url).transaction() as tx:
        tx.execute("CREATE TABLE stuff (x integer)")
    for moment in MOMENTS:
        busy = Busy(store)
        busy.start()
        assert busy.begun.wait(PATIENCE)
        time.sleep(moment)  # for it to be somewhere in its work
        busy.opened.revoke()
        # The next one can write while that one goes on.
        finish(store.sync_runner.run(neighbour, wait=timedelta(seconds=PATIENCE)))
        busy.enough.set()
        busy.join(PATIENCE)
    store.close()


async def neighbour(session: Any) -> None:
    """Somebody who has nothing to do with it."""
    await session.execute("CREATE TABLE IF NOT EXISTS neighbours (x integer)", {})
    await session.execute("INSERT INTO neighbours VALUES (1)", {})


if __name__ == "__main__":
    main(*sys.argv[1:])
