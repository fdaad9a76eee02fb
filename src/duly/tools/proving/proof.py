"""The proof itself: a single run as the yardstick, then every case against it."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duly._kernel.errors import Misuse
from duly.tools.proving.asks import EventAsk
from duly.tools.proving.cases import cases_of
from duly.tools.proving.diagnosing import diagnosed
from duly.tools.proving.findings import Finding, OtherValue, Undone
from duly.tools.proving.moments import Span
from duly.tools.proving.points import kill_points, pause_points
from duly.tools.proving.statements import shortened
from duly.tools.proving.states import Masks
from duly.tools.proving.talks import CallMasks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duly.tools.proving.asks import Ask
    from duly.tools.proving.cases import Case
    from duly.tools.proving.findings import Wrong
    from duly.tools.proving.playing import Outcome, Player, Wishes
    from duly.tools.proving.states import State
    from duly.tools.proving.trace import Mark, Place


# A message that was staged is a statement of duly's, and asked for by the user's code.
STAGES = "outbox_insert"


@dataclass(frozen=True, slots=True)
class Yardstick:
    """Two single runs: what they did, and what differs between them by nature."""

    outcome: Outcome
    masks: Masks
    talk: CallMasks

    def wrong(self, outcome: Outcome) -> Wrong | None:
        """The first thing about a case that is not as after a single run."""
        found = self.masks.first_difference(self.outcome.state, outcome.state)
        if found is not None:
            return found
        spoken = self.talk.first_difference(self.outcome.calls, outcome.calls)
        if spoken is not None:
            return spoken
        if outcome.value != self.outcome.value:
            return OtherValue(self.outcome.value, outcome.value)
        return Undone(outcome.left[0]) if outcome.left else None


@dataclass(slots=True)
class Verdict:
    """What came of it."""

    # How many cases of each shape.
    tried: dict[str, int] = field(default_factory=dict)
    finding: Finding | None = None
    # Columns that were not compared.
    hidden: list[str] = field(default_factory=list)
    # The one case that was asked for, where it was not all of them.
    only: str | None = None
    notes: list[str] = field(default_factory=list)
    # Where the databases of the failing case are.
    kept: list[str] = field(default_factory=list)


class Proof:
    """One application, one event, and everything that can happen to it."""

    def __init__(self, player: Player, wishes: Wishes) -> None:
        self._player = player
        self._wishes = wishes

    def run(self, show: Callable[[str], None]) -> Verdict:
        """Try every case until one ends differently; the databases are left as that left them."""
        show("a single run, which everything is compared with")
        start, asks = self._player.find(), self._wishes.asks
        single = self._yardstick(start, asks[:1])
        ordered = single if len(asks) == 1 else self._yardstick(start, asks)
        marks = single.outcome.marks
        self._refuse_nothing(start, single)
        repeatable = single.outcome.repeatable
        cases = cases_of(asks, kill_points(marks), pause_points(marks), repeatable=repeatable)
        notes = notes_of(asks, cases, single)
        verdict = Verdict(hidden=ordered.masks.told(), only=self._wishes.only, notes=notes)
        chosen = self._chosen(cases)
        for number, case in enumerate(chosen):
            show(f"{number + 1} of {len(chosen)}: {case.told}")
            verdict.tried[case.shape] = verdict.tried.get(case.shape, 0) + 1
            yardstick = ordered if case.shape in ("reordered", "again") else single
            verdict.finding = self._tried(case, single, yardstick)
            if verdict.finding is not None:
                break
        return verdict

    def _tried(self, case: Case, single: Yardstick, yardstick: Yardstick) -> Finding | None:
        outcome = self._player.play(case, single.outcome.marks)
        wrong = yardstick.wrong(outcome)
        if wrong is None:
            return None
        mistake = diagnosed(case, wrong, yardstick.outcome.marks, outcome.calls)
        return Finding(case, wrong, mistake)

    def _yardstick(self, start: State, asks: tuple[Ask, ...]) -> Yardstick:
        begun = time.time()
        one, other = self._player.alone(asks), self._player.alone(asks, shifted=True)
        refuse_wavering(one.marks, other.marks)
        if one.value != other.value:
            raise Misuse(
                f"effects= says {one.value!r:.80} after a single run and {other.value!r:.80} after "
                "another: leave out what differs by nature"
            )
        span = Span(begun, time.time())
        masks = Masks(start, one.state, other.state, span)
        return Yardstick(one, masks, CallMasks(one.calls, other.calls, span))

    def _refuse_nothing(self, start: State, single: Yardstick) -> None:
        """Refuse a run that left nothing to compare: everything would end as it did."""
        done = single.outcome
        if not done.calls and self._wishes.effects is None and done.state.rows == start.rows:
            raise Misuse(
                "the single run changed no table that is compared and called nobody, so that there "
                "is nothing to compare: is it the right event, and are these the right tables?"
            )

    def _chosen(self, cases: list[Case]) -> list[Case]:
        if self._wishes.only is None:
            return cases
        found = [case for case in cases if case.name == self._wishes.only]
        if not found:
            names = ", ".join(case.name for case in cases)
            raise Misuse(f"there is no case {self._wishes.only:.60}: there are {names}")
        return found


def refuse_wavering(one: Sequence[Mark], other: Sequence[Mark]) -> None:
    """Refuse a handler whose own steps differ from run to run.

    Its points could not be found again, and what chance did differently would be called a mistake.
    """
    first, second = steps_of(one), steps_of(other)
    for place in [*(first - second), *(second - first)]:
        raise Misuse(
            f"two single runs took different steps, one of them without {shortened(place.text)}: a "
            "handler whose statements and calls differ from run to run cannot be proved point by "
            "point. Let chance and time come in from outside, or use parameters in its SQL"
        )


def steps_of(marks: Sequence[Mark]) -> Counter[Place]:
    """What the user's code did, and how often."""
    return Counter(mark.place for mark in marks if mark.theirs and mark.phase != "relay")


def notes_of(asks: Sequence[Ask], cases: Sequence[Case], single: Yardstick) -> list[str]:
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
