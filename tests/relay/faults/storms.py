"""Two applications, a bad wire between them, and processes that die all the while.

A's orders are the truth. B must have noted each of them, once, and nothing else.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Self

import duly
from tests.relay.faults import notes, orders
from tests.relay.faults.posts import HISTORY, Beside, Outbox
from tests.relay.faults.wires import Wire
from tests.support.processes import Led
from tests.support.processes.forked import Forked
from tests.support.processes.leading import ROOT
from tests.support.serving import URL as ADDRESS

if TYPE_CHECKING:
    from types import TracebackType

LEASE = "2"
QUIETLY = ("--no-access-log", "--log-level", "error")
LOOK = 0.03
# Seconds without anything new at B: then nothing will happen any more.
STALLED = 60.0
HURRY = "UPDATE duly_jobs SET run_at = {now} WHERE state = 'ready' AND run_at > {now}"
BURY = "UPDATE duly_workers SET lease = 0 WHERE pid = {pid}"


class Server:
    """B behind `duly serve`."""

    def __init__(self, url: str, wire: Wire) -> None:
        self._url = url
        self._wire = wire
        self._process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        process: subprocess.Popen[str] = Forked(
            [sys.executable, "-m", "duly", "serve", notes.APP, "--port", "0", *QUIETLY],
            cwd=ROOT,
            env={**os.environ, notes.URL: self._url},
            stdout=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._listen, args=[process], daemon=True).start()
        return process

    def _listen(self, process: subprocess.Popen[str]) -> None:
        """Have the wire lead to it as soon as it says where it is."""
        assert process.stdout is not None
        found = ADDRESS.search(process.stdout.readline())
        if found is not None:
            self._wire.lead_to(found[0])

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def lives(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End it with no chance to tidy up; returns when it is gone."""
        self._process.kill()
        self._wire.lead_to(None)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def start(self) -> None:
        """Start another in its place."""
        self._process = self._start()


class TwoApps:
    """A and B, each on a database of its own."""

    def __init__(self, places: tuple[str, str], messages: int, seed: int) -> None:
        self._first, self._second = places
        self._messages = messages
        for url in places:
            duly.store(url).open()
        self.outbox, self.notes = Outbox(self._first), Beside(self._second)
        self.outbox.ask(orders.CREATE)
        self.notes.ask(notes.CREATE)
        self.wire = Wire(seed)
        self.killed: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self.wire.__enter__()
        self._b = Server(self._second, self.wire)
        self._a = self._start_a()
        return self

    def _start_a(self) -> Led:
        return Led(orders.MODULE, self._first, self.wire.origin, str(self._messages), LEASE)

    def run(self, kills: int) -> None:
        """Kill the one and the other in turn until B has heard of every order."""
        seen, deadline = -1, 0.0
        while not self._over():
            noted = self.notes.number("SELECT count(*) FROM notes")
            done = self.killed.total()
            if noted != seen:
                seen, deadline = noted, time.monotonic() + STALLED
            assert time.monotonic() < deadline, f"nothing happens any more after {noted}"
            assert self._a.lives, "A has ended by itself"
            assert self._b.lives, "B has ended by itself"
            if done < kills and noted >= self._messages * (done + 1) // (kills + 1):
                self._kill_a() if done % 2 else self._kill_b()
            self.outbox.hurry()
            self.notes.ask(HURRY)
            time.sleep(LOOK)
        assert self.killed.total() == kills, "it was over before it was hard"

    def _over(self) -> bool:
        """Whether A has taken every order, every message is sent, and B has done every job."""
        taken = self.outbox.number("SELECT coalesce(max(number), -1) + 1 FROM orders")
        return taken == self._messages and self.outbox.left() == 0 and self._jobs() == 0

    def _jobs(self) -> int:
        return self.notes.number("SELECT count(*) FROM duly_jobs")

    def _kill_a(self) -> None:
        self._a.kill()
        self.outbox.expire()  # nobody else has any
        self._a = self._start_a()
        self.killed["A"] += 1

    def _kill_b(self) -> None:
        self._b.kill()
        self.notes.ask(BURY.format(now="", pid=self._b.pid))
        self._b.start()
        self.killed["B"] += 1

    def check(self) -> None:
        """B's notes are A's orders, once each, also after copies that come late."""
        self.wire.send_kept()
        taken = Counter(number for (number,) in self.outbox.ask("SELECT number FROM orders"))
        assert taken == Counter(range(self._messages)), "A has lost or repeated an order"
        assert self._over()
        noted = Counter(number for (number,) in self.notes.ask("SELECT number FROM notes"))
        assert noted == taken
        ends = self.outbox.ask(HISTORY)
        assert len({message for message, _, _ in ends}) == len(ends) == self._messages
        assert {outcome for _, outcome, _ in ends} == {"sent"}

    def figures(self) -> str:
        """What it took."""
        attempts = sum(count for _, _, count in self.outbox.ask(HISTORY))
        fates = ", ".join(f"{count} {fate}" for fate, count in sorted(self.wire.fates.items()))
        said = ", ".join(f"{count} {word}" for word, count in sorted(self.wire.said.items()))
        return (
            f"{self._messages} orders of A, each noted once by B; "
            f"{self._messages} messages sent, {attempts - self._messages} attempts at a second "
            f"time or later; on the wire: {fates}; B said: {said}; "
            f"killed: A {self.killed['A']} times, B {self.killed['B']} times"
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._a.kill()
        self._b.kill()
        self.wire.__exit__(kind, problem, trace)
        self.outbox.close()
        self.notes.close()
