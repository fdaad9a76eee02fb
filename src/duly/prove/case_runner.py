"""Run cases: start their processes, kill or pause them, and collect what is left."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from duly.core.errors import UsageError
from duly.prove.calls import read_calls
from duly.prove.cases import COPIES, PROCESSES
from duly.prove.child_main import CALLS, ChildTask, read_child_report
from duly.prove.databases.base import is_wanted
from duly.prove.databases.database_set import DatabaseSet
from duly.prove.databases.discovery import store_of
from duly.prove.declined_deliveries import DeclinedDeliveries, refuse_failed
from duly.prove.recording import refuse_refused
from duly.prove.states import DatabaseState, read_state
from duly.prove.trace import read_marks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from duly.prove.asks import Ask
    from duly.prove.calls import Call
    from duly.prove.cases import Case
    from duly.prove.child_main import ChildReport
    from duly.prove.databases import UnfinishedWork
    from duly.prove.databases.discovery import ProofDatabase
    from duly.prove.findings import RefusedDelivery
    from duly.prove.fork_server import ForkServer, ProcessExit
    from duly.prove.loader import AppInfo
    from duly.prove.trace import Mark
    from duly.prove.watch import Trap


@dataclass(frozen=True, slots=True)
class ProofRequest:
    """What was asked for.

    Args:
        asks: the event, or the job; and further ones that come after it.
        tables: the only tables to compare; None for all.
        effects: a function of a connection whose value is compared instead.
        answers: what calls are answered.
        allowed: addresses that may really be connected to.
        only: the one case to try.
    """

    asks: tuple[Ask, ...]
    tables: tuple[str, ...] | None = None
    effects: Callable[[Any], Any] | None = None
    answers: dict[str, Any] = field(default_factory=dict)
    allowed: frozenset[tuple[str, int]] = frozenset()
    only: str | None = None


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """What a case left behind."""

    state: DatabaseState
    # The value of the user's own function of the database.
    value: Any
    calls: list[Call]
    left: list[UnfinishedWork]
    # What its processes did, one after the other.
    marks: list[Mark]
    # A delivery that was not answered 2xx on its retry, either.
    refused: RefusedDelivery | None = None
    # Whether a handler may be tried again; a job with one attempt may not.
    repeatable: bool = False
    # How many calls had been made at the end of each event.
    ends: tuple[int, ...] = ()
    # Events that came after a newer one of the same resource, by the order guard.
    stale: tuple[Ask, ...] = ()


class PointNotReached(UsageError):
    """A run that did not reach the point where it was to be killed."""


def point_not_reached(case: Case) -> PointNotReached:
    """The error of a case whose point was not reached."""
    return PointNotReached(
        f"the run did not come to the point of {case.name} again ({case.description}): a handler "
        "whose "
        "statements differ from run to run cannot be proved point by point"
    )


class CaseRunner:
    """One application with its databases, which are restored for each case."""

    def __init__(
        self,
        fork_server: ForkServer,
        app_info: AppInfo,
        request: ProofRequest,
        ground: ProofDatabase,
        folder: Path,
    ) -> None:
        self._fork_server = fork_server
        self._app_info = app_info
        self._request = request
        self._files = ground.files
        self._folder = folder
        self._store = store_of(app_info.url, app_info.names)
        self._databases = DatabaseSet(ground, app_info.names, fork_server.proof_processes)
        self._number = 0
        # Of the case that is being played.
        self._declined = DeclinedDeliveries()

    @property
    def ahead(self) -> float:
        """How many seconds the time of the proof is ahead of the machine's."""
        ahead = self._app_info.time.ahead
        return 0.0 if ahead is None else ahead.total_seconds()

    def find_databases(self) -> DatabaseState:
        """Find the databases by a first run; return the state in which every case begins."""
        folder = self._prepare_case()
        ran = [(act, self._run_child(act)) for act in self._tasks_for(folder, self._request.asks)]
        left = self._store.left()
        for act, report in ran:
            refuse_failed(report, left, act)
        self.put_databases_back()
        self._store.prepare()
        self._databases.mark_start(self._folder)
        self._refuse_unknown_tables()
        return read_state(self._databases, self._request.tables)

    def _refuse_unknown_tables(self) -> None:
        """Refuse a name that no table has: nothing would be compared."""
        there = [table.name for base in self._databases for table, _ in base.contents(None)]
        for wanted in self._request.tables or ():
            if not any(is_wanted(name, [wanted]) for name in there):
                known = ", ".join(sorted(there)) or "none"
                raise UsageError(f"there is no table {wanted} to compare: there are {known}")

    def put_databases_back(self) -> None:
        """Restore the databases, once no process is left that could write to them."""
        self._fork_server.end_children()
        self._databases.put_back()

    def restore_original(self) -> None:
        """Restore the databases and remove the copies."""
        self._fork_server.close()
        self._databases.restore_original()

    def save_copies(self, place: Path) -> list[str]:
        """Copies of the databases as they are now."""
        return [base.save_copy(place) for base in self._databases]

    def run_once(self, asks: tuple[Ask, ...], *, shifted: bool = False) -> CaseOutcome:
        """Run the deliveries once; they must succeed, or there is nothing to compare with.

        ``shifted`` lets the numbers that databases give out go on from elsewhere.
        """
        folder = self._prepare_case()
        for base in self._databases if shifted else ():
            base.shift_numbers()
        ran, ends = [], []
        for act in self._tasks_for(folder, asks):
            ran.append((act, self._run_child(act)))
            ends.append(len(read_calls(folder / CALLS)))
        outcome = self._outcome(folder)
        for act, report in ran:
            refuse_failed(report, outcome.left, act)
        repeatable = any(report.repeatable for _, report in ran)
        return replace(outcome, repeatable=repeatable, ends=tuple(ends))

    def run_case(self, case: Case, marks: Sequence[Mark]) -> CaseOutcome:
        """One case, from the beginning; ``marks`` are those of the single run."""
        try:
            return self._try_case(case, marks)
        except PointNotReached:  # threads may have run in another order this once
            return self._try_case(case, marks)

    def _try_case(self, case: Case, marks: Sequence[Mark]) -> CaseOutcome:
        folder = self._prepare_case()
        stale: tuple[Ask, ...] = ()
        if case.shape == "at-once":
            self._run_at_once(folder, case)
        elif case.point is not None and case.shape == "kill":
            self._run_killed(folder, case, case.point.trap("kill", marks))
        elif case.point is not None:
            self._run_paused(folder, case, case.point.trap("stop", marks))
        elif case.shape == "fail":
            self._run_child(self._make_task(folder, 0, case.deliveries, aging=True, failing=True))
        else:
            stale = self._run_one_by_one(folder, case)
        self._redeliver_refused(folder, case)
        return replace(self._outcome(folder), stale=stale)

    # The cases

    def _run_one_by_one(self, folder: Path, case: Case) -> tuple[Ask, ...]:
        """Each delivery after the other; those of another order that came too late for their own.

        In any other case nothing comes late: there an event that is called stale was lost.
        """
        stale: list[Ask] = []
        for number, ask in enumerate(case.deliveries):
            report = self._run_child(self._make_task(folder, number, (ask,), aging=number > 0))
            stale += [ask] if report.stale and case.shape == "reordered" else []
        return tuple(stale)

    def _run_at_once(self, folder: Path, case: Case) -> None:
        gate = folder / "go"
        copies = COPIES // PROCESSES
        acts = [
            self._make_task(folder, number, case.deliveries, copies=copies, gate=gate)
            for number in range(PROCESSES)
        ]
        processes = [self._fork_server.start_child(act) for act in acts]
        gate.touch()
        for act, process in zip(acts, processes, strict=True):
            self._read_child_report(act, self._wait_for_child(act, process))
        self._finish_leftovers(folder, PROCESSES)

    def _run_killed(self, folder: Path, case: Case, trap: Trap) -> None:
        act = self._make_task(folder, 0, case.deliveries, trap=trap)
        if self._wait_for_child(act, self._fork_server.start_child(act)).how != "killed":
            raise point_not_reached(case)
        self._run_child(self._make_task(folder, 1, case.deliveries, aging=True, fresh=case.fresh))

    def _run_paused(self, folder: Path, case: Case, trap: Trap) -> None:
        late = self._make_task(folder, 0, case.deliveries, trap=trap)
        process = self._fork_server.start_child(late)
        if self._wait_for_child(late, process).how != "stopped":
            raise point_not_reached(case)
        self._run_child(self._make_task(folder, 1, case.deliveries, aging=True))
        self._fork_server.resume(process)
        self._read_child_report(late, self._wait_for_child(late, process))
        self._finish_leftovers(folder, 2)

    def _redeliver_refused(self, folder: Path, case: Case) -> None:
        """Retry refused deliveries, as their senders do; one may have to wait for another."""
        for number, _ in enumerate(case.deliveries, max(PROCESSES, len(case.deliveries)) + 1):
            refused = self._declined.pop_all()
            if not refused:
                return
            self._run_child(self._make_task(folder, number, refused, aging=True))

    # Their parts

    def _prepare_case(self) -> Path:
        """Restore the databases, and make a folder for the files of a case."""
        self.put_databases_back()
        self._number += 1
        self._declined = DeclinedDeliveries()
        folder = self._folder / str(self._number)
        folder.mkdir()
        return folder

    def _make_task(
        self, folder: Path, number: int, asks: tuple[Ask, ...] = (), **options: Any
    ) -> ChildTask:
        options |= {"answers": self._request.answers, "allowed": self._request.allowed}
        options["ahead"] = self._app_info.time.ahead
        options["prover"] = self._fork_server.proof_processes.prover
        return ChildTask(folder, number, self._files, asks, **options)

    def _tasks_for(self, folder: Path, asks: tuple[Ask, ...]) -> list[ChildTask]:
        """A process for each, to run one after the other."""
        return [self._make_task(folder, number, (ask,)) for number, ask in enumerate(asks)]

    def _run_child(self, act: ChildTask) -> ChildReport:
        return self._read_child_report(
            act, self._wait_for_child(act, self._fork_server.start_child(act))
        )

    def _wait_for_child(self, act: ChildTask, process: int) -> ProcessExit:
        ending = self._fork_server.wait(process)
        refuse_refused(act.folder)
        return ending

    def _finish_leftovers(self, folder: Path, number: int) -> None:
        """Run what is left to do, if anything is."""
        if self._store.left():
            self._run_child(self._make_task(folder, number, aging=True))

    def _read_child_report(self, act: ChildTask, ending: ProcessExit) -> ChildReport:
        """The report of a process, which must have ended by itself."""
        report = read_child_report(act)
        if report is None or report.problem:
            told = f"it {ending.how} with {ending.code}" if report is None else report.problem
            raise UsageError(
                f"a run ended outside of the handler: {told[:500]}{last_output_line(act, told)}"
            )
        self._declined.record_replies(act, report)
        return report

    def _outcome(self, folder: Path) -> CaseOutcome:
        self._databases.refuse_wider()
        marks = [mark for path in sorted(folder.glob("*.marks")) for mark in read_marks(path)]
        return CaseOutcome(
            read_state(self._databases, self._request.tables),
            self._effects_value(),
            read_calls(folder / CALLS),
            self._store.left(),
            marks,
            self._declined.first,
        )

    def _effects_value(self) -> Any:
        if self._request.effects is None:
            return None
        with self._store.connected() as connection:
            return self._request.effects(connection)


def last_output_line(act: ChildTask, told: str) -> str:
    """The last line that a process printed, for the user who looks for the cause.

    The lines of a traceback say where, and what it ends with was told.
    """
    output = act.file("output")
    lines = output.read_text(errors="replace").split("\n") if output.exists() else []
    heard = [line for line in lines if line.strip() and not line.startswith((" ", "Traceback "))]
    said = [line for line in heard if line.strip() not in told]
    return f" (it said: {said[-1][:200]})" if said else ""
