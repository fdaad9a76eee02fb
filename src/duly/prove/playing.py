"""Plays cases: starts their processes, kills or pauses them, and gathers what is left behind."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from duly.core.errors import Misuse
from duly.prove.acting import CALLS, Act, read_report
from duly.prove.answering import Declined, refuse_failed
from duly.prove.calls import read_calls
from duly.prove.cases import COPIES, PROCESSES
from duly.prove.databases.base import asked_for
from duly.prove.databases.bases import Bases
from duly.prove.databases.finding import store_of
from duly.prove.recording import refuse_refused
from duly.prove.states import State, read_state
from duly.prove.trace import read_marks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from duly.prove.acting import Report
    from duly.prove.asks import Ask
    from duly.prove.calls import Call
    from duly.prove.cases import Case
    from duly.prove.databases import Left
    from duly.prove.databases.finding import Ground
    from duly.prove.findings import Refused
    from duly.prove.nursery import Ending, Nursery
    from duly.prove.trace import Mark
    from duly.prove.watch import Trap
    from duly.prove.where import Told


@dataclass(frozen=True, slots=True)
class Wishes:
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
class Outcome:
    """What a case left behind."""

    state: State
    # What the user's own function of the database says.
    value: Any
    calls: list[Call]
    left: list[Left]
    # What its processes did, one after the other.
    marks: list[Mark]
    # A delivery whose sender was not content with the last answer, either.
    refused: Refused | None = None
    # Whether a handler may be tried again; a job with one attempt may not.
    repeatable: bool = False
    # How many calls had been made when each of the events was through, one after the other.
    ends: tuple[int, ...] = ()
    # What came later than a newer event of the same resource, as the order guard said.
    stale: tuple[Ask, ...] = ()


class Unreached(Misuse):
    """A run that did not come to where it was to be killed."""


def unreached(case: Case) -> Unreached:
    """The error of a case whose point was not come to."""
    return Unreached(
        f"the run did not come to the point of {case.name} again ({case.told}): a handler whose "
        "statements differ from run to run cannot be proved point by point"
    )


class Player:
    """One application with its databases, brought back to where they were for each case."""

    def __init__(
        self, nursery: Nursery, told: Told, wishes: Wishes, ground: Ground, folder: Path
    ) -> None:
        self._nursery = nursery
        self._told = told
        self._wishes = wishes
        self._files = ground.files
        self._folder = folder
        self._store = store_of(told.url, told.names)
        self._bases = Bases(ground, told.names, nursery.ours)
        self._number = 0
        # Of the case that is being played.
        self._declined = Declined()

    @property
    def ahead(self) -> float:
        """How many seconds the time of the proof is ahead of the machine's."""
        ahead = self._told.time.ahead
        return 0.0 if ahead is None else ahead.total_seconds()

    def find(self) -> State:
        """Learn which databases there are by a first run; the state in which every case begins."""
        folder = self._begun()
        ran = [(act, self._ended(act)) for act in self._acts(folder, self._wishes.asks)]
        left = self._store.left()
        for act, report in ran:
            refuse_failed(report, left, act)
        self.put_back()
        self._store.prepare()
        self._bases.begin_here(self._folder)
        self._refuse_unknown_tables()
        return read_state(self._bases, self._wishes.tables)

    def _refuse_unknown_tables(self) -> None:
        """Refuse a name that no table has: nothing would be compared, and everything well."""
        there = [table.name for base in self._bases for table, _ in base.contents(None)]
        for wanted in self._wishes.tables or ():
            if not any(asked_for(name, [wanted]) for name in there):
                known = ", ".join(sorted(there)) or "none"
                raise Misuse(f"there is no table {wanted} to compare: there are {known}")

    def put_back(self) -> None:
        """Everything as it was, when nobody is left who could write to it."""
        self._nursery.calm()
        self._bases.put_back()

    def end(self) -> None:
        """Everything as it was found, and nothing left behind."""
        self._nursery.close()
        self._bases.end()

    def keep(self, place: Path) -> list[str]:
        """Copies of the databases as they are now."""
        return [base.keep(place) for base in self._bases]

    def alone(self, asks: tuple[Ask, ...], *, shifted: bool = False) -> Outcome:
        """Each of them once; it must succeed, or there is nothing to compare with.

        ``shifted`` lets the numbers that databases give out go on from elsewhere.
        """
        folder = self._begun()
        for base in self._bases if shifted else ():
            base.shift()
        ran, ends = [], []
        for act in self._acts(folder, asks):
            ran.append((act, self._ended(act)))
            ends.append(len(read_calls(folder / CALLS)))
        outcome = self._outcome(folder)
        for act, report in ran:
            refuse_failed(report, outcome.left, act)
        repeatable = any(report.repeatable for _, report in ran)
        return replace(outcome, repeatable=repeatable, ends=tuple(ends))

    def play(self, case: Case, marks: Sequence[Mark]) -> Outcome:
        """One case, from the beginning; ``marks`` are those of the single run."""
        try:
            return self._played(case, marks)
        except Unreached:  # threads may have taken another turn this once
            return self._played(case, marks)

    def _played(self, case: Case, marks: Sequence[Mark]) -> Outcome:
        folder = self._begun()
        stale: tuple[Ask, ...] = ()
        if case.shape == "at-once":
            self._at_once(folder, case)
        elif case.point is not None and case.shape == "kill":
            self._killed(folder, case, case.point.trap("kill", marks))
        elif case.point is not None:
            self._paused(folder, case, case.point.trap("stop", marks))
        elif case.shape == "fail":
            self._ended(self._act(folder, 0, case.deliveries, aging=True, failing=True))
        else:
            stale = self._one_by_one(folder, case)
        self._come_again(folder, case)
        return replace(self._outcome(folder), stale=stale)

    # The cases

    def _one_by_one(self, folder: Path, case: Case) -> tuple[Ask, ...]:
        """Each delivery after the other; those of another order that came too late for their own.

        In any other case nothing comes late: there an event that is called stale was lost.
        """
        stale: list[Ask] = []
        for number, ask in enumerate(case.deliveries):
            report = self._ended(self._act(folder, number, (ask,), aging=number > 0))
            stale += [ask] if report.stale and case.shape == "reordered" else []
        return tuple(stale)

    def _at_once(self, folder: Path, case: Case) -> None:
        gate = folder / "go"
        copies = COPIES // PROCESSES
        acts = [
            self._act(folder, number, case.deliveries, copies=copies, gate=gate)
            for number in range(PROCESSES)
        ]
        processes = [self._nursery.begin(act) for act in acts]
        gate.touch()
        for act, process in zip(acts, processes, strict=True):
            self._heard(act, self._waited(act, process))
        self._finished(folder, PROCESSES)

    def _killed(self, folder: Path, case: Case, trap: Trap) -> None:
        act = self._act(folder, 0, case.deliveries, trap=trap)
        if self._waited(act, self._nursery.begin(act)).how != "killed":
            raise unreached(case)
        self._ended(self._act(folder, 1, case.deliveries, aging=True, fresh=case.fresh))

    def _paused(self, folder: Path, case: Case, trap: Trap) -> None:
        late = self._act(folder, 0, case.deliveries, trap=trap)
        process = self._nursery.begin(late)
        if self._waited(late, process).how != "stopped":
            raise unreached(case)
        self._ended(self._act(folder, 1, case.deliveries, aging=True))
        self._nursery.resume(process)
        self._heard(late, self._waited(late, process))
        self._finished(folder, 2)

    def _come_again(self, folder: Path, case: Case) -> None:
        """Do as senders do whose deliveries were refused; one may have to wait for another."""
        for number, _ in enumerate(case.deliveries, max(PROCESSES, len(case.deliveries)) + 1):
            refused = self._declined.taken()
            if not refused:
                return
            self._ended(self._act(folder, number, refused, aging=True))

    # Their parts

    def _begun(self) -> Path:
        """Everything as it was, and a folder for the files of a case."""
        self.put_back()
        self._number += 1
        self._declined = Declined()
        folder = self._folder / str(self._number)
        folder.mkdir()
        return folder

    def _act(self, folder: Path, number: int, asks: tuple[Ask, ...] = (), **options: Any) -> Act:
        options |= {"answers": self._wishes.answers, "allowed": self._wishes.allowed}
        options["ahead"] = self._told.time.ahead
        options["prover"] = self._nursery.ours.prover
        return Act(folder, number, self._files, asks, **options)

    def _acts(self, folder: Path, asks: tuple[Ask, ...]) -> list[Act]:
        """A process for each, to run one after the other."""
        return [self._act(folder, number, (ask,)) for number, ask in enumerate(asks)]

    def _ended(self, act: Act) -> Report:
        return self._heard(act, self._waited(act, self._nursery.begin(act)))

    def _waited(self, act: Act, process: int) -> Ending:
        ending = self._nursery.wait(process)
        refuse_refused(act.folder)
        return ending

    def _finished(self, folder: Path, number: int) -> None:
        """Let what is left be done, if anything is."""
        if self._store.left():
            self._ended(self._act(folder, number, aging=True))

    def _heard(self, act: Act, ending: Ending) -> Report:
        """What a process said, which must have come to its end."""
        report = read_report(act)
        if report is None or report.problem:
            told = f"it {ending.how} with {ending.code}" if report is None else report.problem
            raise Misuse(f"a run ended outside of the handler: {told[:500]}{last_words(act, told)}")
        self._declined.hear(act, report)
        return report

    def _outcome(self, folder: Path) -> Outcome:
        self._bases.refuse_wider()
        marks = [mark for path in sorted(folder.glob("*.marks")) for mark in read_marks(path)]
        return Outcome(
            read_state(self._bases, self._wishes.tables),
            self._value(),
            read_calls(folder / CALLS),
            self._store.left(),
            marks,
            self._declined.first,
        )

    def _value(self) -> Any:
        if self._wishes.effects is None:
            return None
        with self._store.connected() as connection:
            return self._wishes.effects(connection)


def last_words(act: Act, told: str) -> str:
    """The last line that a process printed, for whoever has to find out, unless it was told.

    The lines of a traceback say where, and what it ends with was told.
    """
    output = act.file("output")
    lines = output.read_text(errors="replace").split("\n") if output.exists() else []
    heard = [line for line in lines if line.strip() and not line.startswith((" ", "Traceback "))]
    said = [line for line in heard if line.strip() not in told]
    return f" (it said: {said[-1][:200]})" if said else ""
