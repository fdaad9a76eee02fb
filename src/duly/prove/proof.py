"""The proof itself: a single run as the baseline, then every case against it."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from duly.core.errors import UsageError
from duly.prove import parked_jobs
from duly.prove.asks import EventAsk
from duly.prove.baseline import Baseline, holds_run_time
from duly.prove.calls import changed_repeats, effective_calls
from duly.prove.cases import cases_of
from duly.prove.diagnosis import diagnose
from duly.prove.findings import Finding
from duly.prove.mistakes import NOT_REPEATABLE
from duly.prove.points import kill_points, pause_points
from duly.prove.timestamp_masking import Span, await_next_second

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duly.prove.asks import Ask
    from duly.prove.case_runner import CaseOutcome, CaseRunner, ProofRequest
    from duly.prove.cases import Case
    from duly.prove.states import DatabaseState
    from duly.prove.trace import Mark


# A message that was staged is a statement of duly's, and asked for by the user's code.
STAGES = "outbox_insert"
# Copies at once do not meet in the same way each time.
REPEATS = 3
# How many more single runs there are where no mistake explains a difference.
DOUBTS = 5


@dataclass(slots=True)
class Verdict:
    """The result of a proof."""

    # How many cases of each shape.
    tried: dict[str, int] = field(default_factory=dict)
    finding: Finding | None = None
    # Columns, and values of calls, that were not compared.
    hidden: list[str] = field(default_factory=list)
    # The one case that was asked for, where it was not all of them.
    only: str | None = None
    notes: list[str] = field(default_factory=list)
    # Where the databases of the failing case are.
    kept: list[str] = field(default_factory=list)


class FailedCase(NamedTuple):
    """A case that did not end as it should, and what it was held against."""

    case: Case
    marks: Sequence[Mark]
    baseline: Baseline


class Proof:
    """One application, one event, and everything that can happen to it."""

    def __init__(self, case_runner: CaseRunner, request: ProofRequest) -> None:
        self._case_runner = case_runner
        self._request = request
        self._failed: FailedCase | None = None
        # The cases that ended with a job parked for an operator.
        self._waiting: list[str] = []
        # The calls that were repeated with another body, though under one key.
        self._changed: dict[str, None] = {}

    def run(self, show: Callable[[str], None]) -> Verdict:
        """Try every case until one ends differently; the databases are left as that left them."""
        show("a single run, which everything is compared with")
        start, asks = self._case_runner.find_databases(), self._request.asks
        single = self._make_baseline(start, asks[:1])
        ordered = single if len(asks) == 1 else self._make_baseline(start, asks)
        marks = single.outcome.marks
        self._refuse_nothing(start, single)
        repeatable = single.outcome.repeatable
        cases = cases_of(asks, kill_points(marks), pause_points(marks), repeatable=repeatable)
        verdict = Verdict(only=self._request.only)
        chosen = self._select_cases(cases)
        for number, case in enumerate(chosen):
            show(f"{number + 1} of {len(chosen)}: {case.description}")
            verdict.tried[case.shape] = verdict.tried.get(case.shape, 0) + 1
            yardstick = ordered if case.shape in ("reordered", "again") else single
            verdict.finding = self._try_case(case, single, yardstick)
            if verdict.finding is not None:
                break
        verdict.hidden = sorted({*single.not_compared(), *ordered.not_compared()})
        verdict.notes = notes_of(asks, cases, single)
        if self._waiting:
            verdict.notes.append(parked_jobs.note_of(self._waiting))
        verdict.notes += map(changed_note, self._changed)
        return verdict

    def _try_case(self, case: Case, single: Baseline, baseline: Baseline) -> Finding | None:
        marks = single.outcome.marks
        outcome = self._case_runner.run_case(case, marks)
        if baseline.first_mismatch(outcome) is None:
            self._record_success(case, outcome)
            return None
        # A clock may have ticked since the baseline was made, be it by the second or by the day:
        # what a single run does otherwise now is no fault of the case.
        finding = self._compare_again(case, outcome, baseline)
        if finding is not None and finding.mistake.name == NOT_REPEATABLE:
            # No mistake explains it. It may be chance, which two single runs need not have shown.
            for _ in range(DOUBTS):
                if finding is not None:
                    finding = self._compare_again(case, outcome, baseline)
        if finding is None:
            self._record_success(case, outcome)
            return None
        self._failed = FailedCase(case, marks, baseline)
        return finding

    def _compare_again(
        self, case: Case, outcome: CaseOutcome, baseline: Baseline
    ) -> Finding | None:
        """Hold a case against one more single run."""
        baseline.add_single_run(self._case_runner.run_once(baseline.asks, shifted=True))
        wrong = baseline.first_mismatch(outcome)
        if wrong is None:
            return None
        mistake = diagnose(case, wrong, baseline.outcome.marks, outcome.calls)
        return Finding(case, wrong, mistake)

    def _record_success(self, case: Case, outcome: CaseOutcome) -> None:
        """The case ended as it should; what is left waits for an operator.

        The other side knows a call by its key, but may look at more.
        """
        if outcome.left:
            self._waiting.append(case.name)
        self._changed |= dict.fromkeys(changed_repeats(outcome.calls))

    def repeat_failed_case(self) -> None:
        """Restore the state that the failing case left, for a user who keeps the databases."""
        if self._failed is None:
            return
        case, marks, yardstick = self._failed
        with suppress(UsageError):  # what was found stays found
            for _ in range(REPEATS):
                if yardstick.first_mismatch(self._case_runner.run_case(case, marks)) is not None:
                    break

    def _make_baseline(self, start: DatabaseState, asks: tuple[Ask, ...]) -> Baseline:
        begun = time.time()
        one = self._case_runner.run_once(asks)
        if holds_run_time(start, one, Span(begun, time.time(), self._case_runner.ahead)):
            await_next_second()
        other = self._case_runner.run_once(asks, shifted=True)
        if self._request.effects is not None and one.value is None:
            raise UsageError(
                "effects= returned None, which says nothing: return what is to be compared"
            )
        return Baseline(start, asks, one, other)

    def _refuse_nothing(self, start: DatabaseState, single: Baseline) -> None:
        """Refuse a run that left nothing to compare: everything would end as it did."""
        done, chosen = single.outcome, self._request.effects is not None
        if not effective_calls(done.calls) and not chosen and done.state.rows == start.rows:
            raise UsageError(
                "the single run changed no table that is compared and made no call that changes "
                "anything, so that there is nothing to compare: is it the right event, and are "
                "these the right tables?"
            )

    def _select_cases(self, cases: list[Case]) -> list[Case]:
        if self._request.only is None:
            return cases
        found = [case for case in cases if case.name == self._request.only]
        if not found:
            names = ", ".join(case.name for case in cases)
            raise UsageError(f"there is no case {self._request.only:.60}: there are {names}")
        return found


def changed_note(call: str) -> str:
    """What to say of a call that was repeated with another body."""
    return (
        f"{call} was repeated under one key with another body, such as another time: it counts as "
        "one here, but Stripe and others refuse that"
    )


def notes_of(asks: Sequence[Ask], cases: Sequence[Case], single: Baseline) -> list[str]:
    """What was not tried, and why."""
    notes = []
    marks = single.outcome.marks
    if not any((mark.theirs or mark.ours == STAGES) and mark.phase != "relay" for mark in marks):
        notes.append(
            "no statement of the handler was seen, so that it was not killed between them: seen "
            "are those by sqlite3, psycopg 3 and asyncpg, and by what is built on these"
        )
    for table in single.masks.written_outside(marks):
        notes.append(f"{table} is written outside the transaction, and not all of it is compared")
    if len(asks) == 1 and isinstance(asks[0], EventAsk):
        notes.append("order was not tried: give a second, later event with another --event")
    if not any(case.shape == "pause" for case in cases):
        notes.append(
            "no late worker was tried: the handler runs inside the accepting COMMIT, without lease"
        )
    return notes
