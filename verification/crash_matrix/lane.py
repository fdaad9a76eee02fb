"""A lane: one database, one receiver, and one case after the other, each in a child of its own.

A lane has no threads and none of duly's connections, so that it can fork at any moment; the one by
which it looks at its database is left alone by its children.
"""

from __future__ import annotations

import gc
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg

import duly
from duly.prove.steps import watching
from verification.crash_matrix.audit import Audit, Settled, overdone
from verification.crash_matrix.cases import TIMES
from verification.crash_matrix.children import PATIENCE, STOPPED, Child, Hung
from verification.crash_matrix.flows import FLOWS
from verification.crash_matrix.journal import Journal
from verification.crash_matrix.lives import Blow, live
from verification.crash_matrix.recovery import recover
from verification.crash_matrix.shop import Colour, Terms
from verification.crash_matrix.traps import Boundary, Doom, Passed
from verification.crash_matrix.verdicts import Beside, Plan, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from verification.crash_matrix.cases import Case
    from verification.crash_matrix.flows import Flow
    from verification.crash_matrix.places import Place

# What goes on at the same time is not always done in as many statements.
TRIES = 5
LEASED = (
    "SELECT 'job', id, epoch FROM duly_jobs WHERE state = 'leased' UNION ALL"
    " SELECT 'message', id, epoch FROM duly_outbox WHERE state = 'leased' UNION ALL"
    " SELECT 'claim', {name}, epoch FROM duly_claims WHERE state = 'held'"
)


class Lane:
    """Runs cases."""

    def __init__(self, place: Place, folder: Path, cluster: Path | None = None) -> None:
        self.place = place
        self._journal = Journal(str(folder / "journal"))
        self._journal.clear()
        self._stderr = folder / "stderr"
        self._cluster = cluster
        # Those of the case at hand.
        self._children: list[Child] = []
        self._receiver = subprocess.Popen(
            [sys.executable, "-m", "verification.crash_matrix.receiver", self._journal.path],
            stdout=subprocess.PIPE,
        )
        assert self._receiver.stdout is not None
        with self._receiver.stdout as told:
            port = int(told.readline())
        self._origin = f"http://127.0.0.1:{port}"

    def warm(self, mode: str) -> None:
        """Import and remember here what every child would otherwise have to by itself."""
        flow, terms = FLOWS["receive-new"], self._terms(mode)
        self._begin(flow)
        recover(flow, terms, self.place)
        for thread in threading.enumerate():
            if thread is not threading.main_thread():
                thread.join(10)  # a timer may have a moment left; a lane forks, and has no threads
        gc.collect()
        gc.freeze()  # no child has to look at all of this, and by that copy it

    def close(self) -> None:
        """End the receiver, and whoever is stopped in the middle of a case."""
        for child in self._children:
            child.kill()
        self._receiver.kill()
        self._receiver.wait()

    def plan(self, mode: str, name: str) -> Plan:
        """The boundaries of a flow that nothing strikes: those that two runs of it came to."""
        first = self._unharmed(mode, name)
        second = {each.at: each for each in self._unharmed(mode, name)}
        # Whether another connection has a transaction open at the same time may differ.
        steady = [
            each._replace(inside=each.inside or second[each.at].inside)
            for each in first
            if each.at in second
        ]
        once = second.keys() ^ {each.at for each in first}
        return Plan(steady, sum(at.number < TIMES for at in once))

    def _unharmed(self, mode: str, name: str) -> list[Passed]:
        """The boundaries that one run came to."""
        flow, terms = FLOWS[name], self._terms(mode)
        self._begin(flow)
        code = self._child(lambda: live(flow, terms, self.place, None)).wait()
        assert code == 0, f"{mode}/{name} fails unharmed:\n{self.said()}"
        run = [line["at"] for line in self._journal.of("passed")]
        found = self._recovered(flow, terms)
        found += [] if flow.extra.get("again") else overdone(self._journal)
        assert not found, f"{mode}/{name} is not whole unharmed: {found}\n{self.said()}"
        return [
            Passed(Boundary(at[0], at[1], at[2]), at[3], at[4])
            for at in run
            if not flow.only or any(word in at[0] for word in flow.only)
        ]

    def run(self, case: Case, *, planned: bool = False) -> Verdict:
        """One case; once more where its boundary was not come to.

        What goes on at the same time is not done in the same statements each time. A boundary that
        an unharmed run does not come to either, though an earlier one did, cannot be struck and is
        told apart; one that is there each time and is not struck fails its case.
        """
        for _ in range(TRIES):
            verdict = self._run(case)
            if verdict is not None:
                return verdict
        runs = [self._unharmed(case.mode, case.flow) for _ in range(TRIES)]
        there = [any(each.at == case.at for each in run) for run in runs]
        if not all(there) and (planned or any(there)):
            return Verdict(case, [], unsteady=True)
        known = sorted({each.at.name for run in runs for each in run})
        told = "" if case.at.name in known else f"; {case.flow} comes to: {', '.join(known)}"
        return Verdict(case, [f"vacuous: the boundary was never come to, and not struck{told}"])

    def _run(self, case: Case) -> Verdict | None:
        flow, terms = FLOWS[case.flow], self._terms(case.mode)
        self._begin(flow)
        blow = Blow(case.at, case.fault, self._cluster)
        child = self._child(lambda: live(flow, terms, self.place, blow))
        stopped = False
        held: set[Any] = set()
        found: list[str] = []
        try:
            code = child.wait()
            if code == STOPPED:
                stopped, held = True, self._leases()
                beside = self._rivalled if case.fault == "rival" else self._passed_over
                code, seen, left = beside(flow, terms, child)
                found += seen
                held -= left
        except Hung as hung:
            found.append(f"I6: {hung}:\n{self.said()}")
            child.kill()
            code = 0
        self._release()
        if not self._journal.of("struck"):
            return None
        if code not in (0, -signal.SIGKILL):
            found.append(f"the process ended with {code}:\n{self.said()}")
        doubly = False
        if case.then is not None:
            ended = self._child(lambda: self._recover_until(flow, terms, case.then or 0)).wait()
            doubly = ended == -signal.SIGKILL
            found += [] if doubly or not ended else [f"I6: the recovery failed:\n{self.said()}"]
        found += self._recovered(flow, terms)
        ends = [*self._journal.of("worked"), *self._journal.of("relayed")]
        verdict = Verdict(case, found, refused=sum(line["lost"] for line in ends), doubly=doubly)
        if not stopped:
            return verdict
        if held:
            return verdict._replace(zombies=1)
        kept_waiting = bool(self._journal.of("held up"))
        return verdict._replace(waited_for=int(kept_waiting), passed_by=int(not kept_waiting))

    def _leases(self) -> set[Any]:
        """Who has what, as far as it is committed."""
        name = "hex(digest)" if self.place.url.startswith("sqlite") else "digest::text"
        with suppress(sqlite3.Error, psycopg.Error):  # there are no tables yet
            rows = self.place.rows(LEASED.format(name=name).replace(" id,", " CAST(id AS text),"))
            return set(rows)
        return set()

    def _recover_until(self, flow: Flow, terms: Terms, number: int) -> None:
        """A recovery that is killed at one of its statements."""
        with watching(Doom(number)):
            recover(flow, terms, self.place)

    def _passed_over(self, flow: Flow, terms: Terms, stopped: Child) -> Beside:
        """While one is stopped, others do all there is to do; then it goes on."""
        code = self._child(lambda: self._beside(flow, terms)).wait()
        found = [] if code == 0 else [f"I6: nobody could go on beside it:\n{self.said()}"]
        left = self._leases()
        stopped.go_on()
        return Beside(stopped.wait(), found, left)

    def _rivalled(self, flow: Flow, terms: Terms, stopped: Child) -> Beside:
        """While one is stopped, another takes over; the first one goes on while that is at work."""
        opened = self._stderr.with_name("opened")
        opened.unlink(missing_ok=True)
        held = terms._replace(gate=lambda: self._hold(opened))
        other = self._child(lambda: self._beside(flow, held))
        while not self._journal.of("holding") and not other.ended():
            time.sleep(0.005)
        took_over = bool(self._journal.of("holding"))
        before, left = self._effects_of(stopped), self._leases()
        stopped.go_on()
        code = stopped.wait()
        late = self._effects_of(stopped) - before
        opened.touch()
        other.wait()
        found = [f"I8: {what!r} was left by one whose lease was lost" for what in late if took_over]
        for line in self._journal.of("worked"):
            if took_over and line["who"] == other.pid and line["lost"]:
                found.append("I8: the newest holder of a lease was refused")
        return Beside(code, found, left)

    def _hold(self, opened: Path) -> None:
        """Keep a job at work until the other one has ended."""
        self._journal.write("holding")
        until = time.monotonic() + PATIENCE / 2
        while not opened.exists() and time.monotonic() < until:
            time.sleep(0.005)

    def _effects_of(self, child: Child) -> set[str]:
        rows = self.place.rows(f"SELECT what FROM effects WHERE who = {child.pid}")
        return {what for (what,) in rows}

    def _beside(self, flow: Flow, terms: Terms) -> None:
        """A recovery, which may be told that the stopped one has the lock of a key, or SQLite's."""
        try:
            recover(flow, terms, self.place)
        except duly.errors.InProgress:
            self._journal.write("held up")

    def _recovered(self, flow: Flow, terms: Terms) -> list[str]:
        """Everything brought to its end, and looked at."""
        settled = Settled(self.place, self._journal)
        try:
            code = self._child(lambda: recover(flow, terms, self.place)).wait()
        except Hung as hung:
            return [f"I6: the recovery hangs: {hung}:\n{self.said()}"]
        found = [] if code == 0 else [f"I6: the recovery failed:\n{self.said()}"]
        return found + settled.repeated() + Audit(flow, self.place, self._journal).violations()

    def _begin(self, flow: Flow) -> None:
        self._children.clear()
        self._back()
        if flow.empty:
            self.place.empty()
        else:
            self.place.reset()
        self._journal.clear()
        self._stderr.write_bytes(b"")

    def _back(self) -> None:
        """Wait for a server that was struck down."""
        while not self.place.answers():
            time.sleep(0.02)

    def _release(self) -> None:
        """Let the processes of the server go on that a fault has stopped."""
        for line in self._journal.of("stopped"):
            with suppress(ProcessLookupError):
                os.kill(line["pid"], signal.SIGCONT)
        self._back()

    def _terms(self, mode: str) -> Terms:
        colour: Colour = "sync" if mode.endswith("-sync") else "async"
        return Terms(self.place.url, self._origin, colour, self._journal)

    def _child(self, work: Callable[[], None]) -> Child:
        def quiet() -> None:
            file = os.open(self._stderr, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.dup2(file, 2)
            work()

        child = Child(quiet)
        self._children.append(child)
        return child

    def said(self) -> str:
        """What the children had to say."""
        return self._stderr.read_text()[-12000:]
