"""The baseline: single runs that every case is compared with, and what differs between them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from duly.core.errors import UsageError
from duly.prove import parked_jobs
from duly.prove.call_diff import CallMasks, leaves
from duly.prove.findings import AbandonedWork, OtherValue
from duly.prove.statements import shorten
from duly.prove.states import ColumnMasks
from duly.prove.table_diff import written_rows
from duly.prove.timestamp_masking import is_moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duly.prove.asks import Ask
    from duly.prove.calls import Call
    from duly.prove.case_runner import CaseOutcome
    from duly.prove.findings import Mismatch
    from duly.prove.states import DatabaseState
    from duly.prove.timestamp_masking import Span
    from duly.prove.trace import Mark, Place


class Baseline:
    """What a single run leaves, without what is another in other single runs.

    Args:
        start: the state in which every run begins.
        asks: what is delivered.
        outcome: what a single run left.
        other: what another one left.
    """

    def __init__(
        self, start: DatabaseState, asks: tuple[Ask, ...], outcome: CaseOutcome, other: CaseOutcome
    ) -> None:
        self.asks = asks
        self.outcome = outcome
        self._start = start
        self._others: list[CaseOutcome] = []
        self.add_single_run(other)

    def add_single_run(self, other: CaseOutcome) -> None:
        """Leave out what is another after this single run."""
        refuse_wavering(self.outcome.marks, other.marks)
        refuse_other_value(self.outcome, other)
        self._others.append(other)
        one, others = self.outcome, self._others
        self.masks = ColumnMasks(self._start, one.state, [each.state for each in others])
        self._call_masks = CallMasks(one.calls, [each.calls for each in others])

    def not_compared(self) -> list[str]:
        """What was left out, as text for the report."""
        return [*self.masks.describe_hidden(), *self._call_masks.describe_hidden()]

    def first_mismatch(self, outcome: CaseOutcome) -> Mismatch | None:
        """The first thing about a case that is not as after a single run."""
        waiting = parked_jobs.waits_for_person(outcome.left)
        for found in self._differences(outcome):
            if found is not None and not (waiting and parked_jobs.is_undone(found)):
                return found
        return None

    def _differences(self, outcome: CaseOutcome) -> Iterator[Mismatch | None]:
        yield self.masks.first_difference(self.outcome.state, outcome.state)
        needed = self._needed_calls(outcome.stale)
        yield self._call_masks.first_difference(self.outcome.calls, outcome.calls, needed)
        if outcome.value != self.outcome.value:
            yield OtherValue(self.outcome.value, outcome.value)
        if outcome.left:
            yield AbandonedWork(outcome.left[0])
        yield outcome.refused

    def _needed_calls(self, stale: Sequence[Ask]) -> list[Call]:
        """The calls of the single run without those that were made for stale events.

        A handler with ``order=`` is not called for these, and sends nothing. What the others led
        to must still be sent, and nothing else; the state must be as ever.
        """
        calls, begins = self.outcome.calls, (0, *self.outcome.ends)
        spans = zip(self.asks, begins, self.outcome.ends, strict=False)
        return [call for ask, begin, end in spans if ask not in stale for call in calls[begin:end]]


def holds_run_time(start: DatabaseState, outcome: CaseOutcome, span: Span) -> bool:
    """Whether what a run wrote or sent holds the time at which it ran."""
    rows = (
        row
        for spot, there in outcome.state.rows.items()
        for row in written_rows(start.rows.get(spot, []), there)
    )
    values = [value for row in rows for value in row.values()]
    values += [value for call in outcome.calls for _, value in leaves(call.content)]
    return any(is_moment(value, span) for value in values)


def refuse_other_value(one: CaseOutcome, other: CaseOutcome) -> None:
    """Refuse a function of the user's that does not say the same after each single run."""
    if one.value != other.value:
        raise UsageError(
            f"effects= says {one.value!r:.80} after a single run and {other.value!r:.80} after "
            "another: leave out what differs by nature"
        )


def refuse_wavering(one: Sequence[Mark], other: Sequence[Mark]) -> None:
    """Refuse a handler whose own steps differ from run to run.

    Its points could not be found again, and what chance did differently would be called a mistake.
    """
    first, second = steps_of(one), steps_of(other)
    for place in [*(first - second), *(second - first)]:
        raise UsageError(
            f"two single runs took different steps, one of them without {shorten(place.text)}: a "
            "handler whose statements and calls differ from run to run cannot be proved point by "
            "point. Let chance and time come in from outside, or use parameters in its SQL"
        )


def steps_of(marks: Sequence[Mark]) -> Counter[Place]:
    """What the user's code did, and how often."""
    return Counter(mark.place for mark in marks if mark.theirs and mark.phase != "relay")
