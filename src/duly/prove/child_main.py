"""The main function of one process of a case: deliver, work, relay, until it ends or is killed."""

from __future__ import annotations

import asyncio
import json
import os
import traceback
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from duly.app.output import one_line
from duly.jobs import invoke
from duly.prove import keys
from duly.prove.clocks import with_shifted_clock
from duly.prove.databases.connection_inspector import ConnectionInspector
from duly.prove.databases.discovery import store_of
from duly.prove.databases.failures import place_in
from duly.prove.databases.servers import OwnDatabase
from duly.prove.leftover_threads import LeftoverTracker
from duly.prove.loader import database_url, server_addresses
from duly.prove.recording import (
    AuditHook,
    CannedAnswers,
    NetworkGuard,
    Recorder,
    Refusals,
    recording,
)
from duly.prove.sites import run_lifespan
from duly.prove.staleness import StaleCounter
from duly.prove.steps import watching
from duly.prove.steps.watching import replace_attribute
from duly.prove.trace import MarkLog, StatementNames
from duly.prove.watch import Watch
from duly.worker import run_job
from duly.worker.executor import Executor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from duly.app.duly import Duly
    from duly.jobs.handlers import Handler
    from duly.prove.asks import Ask
    from duly.prove.loader import Load, Subject
    from duly.prove.watch import Trap
    from duly.worker.execution import Execution

# Longer than any case: a worker loses its lease because the clock is put forward.
LEASE = timedelta(minutes=10)
# As many times as a job may fail, or lose its worker, and one more.
ROUNDS = 7
# A sender retries when the answer asks for it.
TRIES, PAUSE = 40, 0.05
CALLS = "calls.jsonl"
# Seconds for all processes of a case to be ready.
WAITING = 60.0


@dataclass(frozen=True, slots=True)
class ChildTask:
    """One process of a case.

    Args:
        folder: where the files of the case are.
        number: which process of the case it is.
        files: the list to which SQLite files are added, and copied, before they are first used.
        deliveries: what is delivered, one after the other.
        copies: how many copies of them at once.
        trap: where it dies, or is stopped.
        aging: whether leases of others run out, and waits are over.
        failing: whether the first run of each handler fails at its end.
        fresh: whether it is to be done by another interpreter, if that is possible.
        gate: a file; nothing is delivered before it is there.
        ahead: how far the application's time is ahead of the machine's, where it has its own.
        prover: the number of the process that makes the proof.
    """

    folder: Path
    number: int
    files: Path
    deliveries: tuple[Ask, ...] = ()
    copies: int = 1
    trap: Trap | None = None
    aging: bool = False
    failing: bool = False
    fresh: bool = False
    gate: Path | None = None
    prover: int = 0
    answers: dict[str, Any] = field(default_factory=dict)
    allowed: frozenset[tuple[str, int]] = frozenset()
    ahead: timedelta | None = None

    def file(self, kind: str) -> Path:
        """A file of this process."""
        return self.folder / f"{self.number}.{kind}"


@dataclass(slots=True)
class ChildReport:
    """The report of a process at its end."""

    replies: list[tuple[int, str]] = field(default_factory=list)
    done: int = 0
    failed: int = 0
    # How often an event came after a newer one of the same resource.
    stale: int = 0
    # Whether a handler ran that may be tried again.
    repeatable: bool = False
    problem: str = ""
    # What the last handler that failed did so with, and where, for the end of a sentence.
    failure: str = ""


class InstrumentedApp:
    """An application with every statement watched and every call recorded.

    Both begin before it is imported, so that nothing of it can hold on to what was there before.
    """

    def __init__(self) -> None:
        self.refusals = Refusals()
        self.watch = Watch(self.refusals)
        self.recorder = Recorder(self.watch.call)
        self.net = NetworkGuard(self.refusals)
        self.failures = FailureInjector()
        self.staleness = StaleCounter()
        self.leftovers = LeftoverTracker(self.refusals)
        self._stack = ExitStack()
        self._subject: Subject | None = None

    def load(self, load: Load) -> Subject:
        """Import the application, the first time."""
        if self._subject is None:
            self._stack.enter_context(watching(self.watch))
            self._stack.enter_context(recording(self.recorder, self.net))
            self._stack.enter_context(record_started_jobs(self.watch))
            self._stack.enter_context(inject_failures(self.failures))
            self._stack.enter_context(self.staleness.count_stale())
            self._stack.enter_context(keys.record_keys())
            self._stack.enter_context(self.leftovers.track_threads())
            AuditHook(self.net).add()
            self._subject = load()
        return self._subject

    def begin(self, app: Duly, act: ChildTask) -> None:
        """Start recording."""
        # What comes at its own time is not about this event.
        app.schedules._by_job.clear()
        self.refusals.begin(act.folder)
        if act.ahead is not None:
            self._stack.enter_context(with_shifted_clock(app, act.ahead))
        self.recorder.begin(act.folder / CALLS, CannedAnswers(act.answers))
        self.net.close(act.allowed)
        self.failures.wanted = act.failing
        self.watch.begin(
            StatementNames(app.store.names),
            MarkLog(act.file("marks")),
            act.trap,
            connection_inspector(app.store.url, act).inspect,
        )


def connection_inspector(url: str, act: ChildTask) -> ConnectionInspector:
    """Looks at each connection when it is first used."""
    return ConnectionInspector(act, OwnDatabase(url, act.allowed - server_addresses(url)))


@contextmanager
def record_started_jobs(watch: Watch) -> Iterator[None]:
    """Record each job that a worker is about to run."""
    launch = Executor._launch

    def launch_and_record(self: Executor, run: Execution) -> None:
        watch.record_job_start(run.handler.name)
        launch(self, run)

    with replace_attribute(Executor, "_launch", launch_and_record):
        yield


class Interrupted(Exception):
    """The end of an attempt that a proof lets fail."""


class FailureInjector:
    """Lets the first run of each handler fail at its end, where the case asks for it."""

    def __init__(self) -> None:
        self.wanted = False
        self.repeatable = False
        self.last = ""
        self._failed: set[str] = set()

    def record_failure(self, problem: Exception) -> None:
        """Record that a handler failed by itself."""
        place = place_in("".join(traceback.format_tb(problem.__traceback__)))
        self.last = f" ({type(problem).__name__}: {one_line(problem)[:200]}){place}"

    def handler_finished(self, handler: Handler) -> None:
        """Record that a handler has returned."""
        if handler.attempts == 1:
            return
        self.repeatable = True
        if self.wanted and handler.name not in self._failed:
            self._failed.add(handler.name)
            raise Interrupted("the proof lets this attempt fail, and the next one go on")


@contextmanager
def inject_failures(failures: FailureInjector) -> Iterator[None]:
    """Call back when a handler returns, inside its transaction if it has one."""
    plainly = invoke.call_handler

    async def run(handler: Handler, **offered: object) -> None:
        try:
            await plainly(handler, **offered)
        except Exception as problem:
            failures.record_failure(problem)
            raise
        failures.handler_finished(handler)

    with (
        replace_attribute(invoke, "call_handler", run),
        replace_attribute(run_job, "call_handler", run),
    ):
        yield


def run_child_task(stage: InstrumentedApp, load: Load, act: ChildTask) -> None:
    """Run the act; its report is a file, which is missing if the process was killed."""
    report = ChildReport()
    try:
        subject = stage.load(load)
        stage.begin(subject.app, act)
        asyncio.run(run_until_idle(subject, act, stage, report))
        report.repeatable = stage.failures.repeatable
        report.failure = stage.failures.last
        report.stale = stage.staleness.found
    except BaseException as problem:
        report.problem = "".join(traceback.format_exception_only(problem)).strip()
        traceback.print_exc()
    told = {name: getattr(report, name) for name in ChildReport.__slots__}
    act.file("report").write_text(json.dumps(told))


async def run_until_idle(
    subject: Subject, act: ChildTask, stage: InstrumentedApp, report: ChildReport
) -> None:
    """Deliver, work and relay until there is nothing to do."""
    app, watch = subject.app, stage.watch
    await asyncio.to_thread(app.store.open)
    if act.gate is not None:
        await wait_for_gate(act.gate)
    store = store_of(database_url(app), app.store.names)
    if act.aging:
        await asyncio.to_thread(store.age, app.store.clock)
    watch.phase = "receive"
    async with run_lifespan(subject.site if act.deliveries else None):
        stage.leftovers.begin()
        for delivery in act.deliveries:
            watch.claimed = False
            copies = (deliver_with_retries(subject, delivery) for _ in range(act.copies))
            report.replies += await asyncio.gather(*copies)
    for _ in range(ROUNDS if act.aging else 1):
        watch.phase = "work"
        # One job at a time: two at once would take their steps in another order in each run.
        worked = await app.aio.work(concurrency=1, lease=LEASE)
        await stage.leftovers.wait_until_done()
        watch.phase = "relay"
        if await asyncio.to_thread(store.staged):
            await app.aio.relay(lease=LEASE)
        report.done += worked.done
        report.failed += worked.retried
        if not act.aging or all(one.state == "dead" for one in await asyncio.to_thread(store.left)):
            return
        await asyncio.to_thread(store.age, app.store.clock)


async def deliver_with_retries(subject: Subject, delivery: Ask) -> tuple[int, str]:
    """Deliver as a sender does: retry while the answer says later."""
    for _ in range(TRIES):
        status, word = await delivery.deliver(subject)
        if status != 503:
            return status, word
        await asyncio.sleep(PAUSE)
    return 503, "it could not be received"


async def wait_for_gate(gate: Path) -> None:
    """Wait until all processes of the case may begin."""
    async with asyncio.timeout(WAITING):
        while not os.access(gate, os.F_OK):  # noqa: ASYNC110  # another process makes it
            await asyncio.sleep(0.001)


def read_child_report(act: ChildTask) -> ChildReport | None:
    """The report of a process; None if it was killed before."""
    file = act.file("report")
    if not file.exists():
        return None
    told = json.loads(file.read_text())
    replies: Sequence[Any] = told.pop("replies")
    return ChildReport(replies=[(status, word) for status, word in replies], **told)
