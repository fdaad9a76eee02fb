"""The steps of a single run, and the questions that a diagnosis asks about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.prove.statements import read_tables, verb_of, written_table
from duly.prove.trace import CLAIMS, TAKEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.prove.cases import Case
    from duly.prove.trace import Mark

# The statement by which a job ends inside the transaction of its handler.
SETTLES = "jobs_done"
DONE = frozenset({SETTLES, "jobs_done_many"})
# By these a job or a message is put there.
ENQUEUES = frozenset({"jobs_insert", "jobs_insert_many", "outbox_insert"})
# The notes before and after an effect.
INTENDED = "effects_intend"
EFFECTS = frozenset({INTENDED, "effects_write", "effects_undo"})
# By this one a version is asked for, be it through order= or tx.newer(…).
ORDERS = "versions_advance"


class Trace:
    """What a single run did."""

    def __init__(self, marks: Sequence[Mark]) -> None:
        self.marks = marks
        self._fenced = {mark.transaction for mark in marks if mark.ours} - {None}

    def is_outside(self, mark: Mark) -> bool:
        """Whether a write does not share the fate of the claim, or of the job's end."""
        return mark.transaction is None or mark.transaction not in self._fenced

    # When

    def is_before_claim(self, index: int) -> bool:
        """Whether it was done before the event was claimed, so that every copy does it."""
        mark = self.marks[index]
        return mark.phase == "receive" and not mark.claimed

    def is_inline(self, index: int) -> bool:
        """Whether no job had been begun: a handler that does it runs in the accepting COMMIT."""
        return self.marks[index].phase == "receive"

    def is_after_acceptance(self, index: int) -> bool:
        """Whether the event had been accepted, and its route was still at work."""
        return self.is_inline(index) and any(
            mark.ends and mark.transaction in self._fenced for mark in self.marks[:index]
        )

    def is_after_settling(self, index: int) -> bool:
        """Whether each job that had been begun was done and committed by then."""
        before = self.marks[:index]
        ended = {mark.transaction for mark in before if mark.ends}
        done = [one for one in before if one.ours == SETTLES and one.transaction in ended]
        return 0 < len([one for one in before if one.ours == TAKEN]) <= len(done)

    # What

    def writes(self, table: str) -> list[int]:
        """Where the user's code writes to a table."""
        return [
            index
            for index, mark in enumerate(self.marks)
            if mark.theirs and written_table(mark.text) == table.lower()
        ]

    def outside_writes(self, case: Case) -> list[Mark]:
        """What the user's code had written outside the transaction when it was killed."""
        reached = self.marks if case.point is None else self.marks[: case.point.index + 1]
        return [
            mark
            for mark in reached
            if mark.theirs and mark.kind == "sql" and verb_of(mark.text) and self.is_outside(mark)
        ]

    def enqueued_last(self, case: Case) -> bool:
        """Whether a job or a message was committed right before the kill, and by itself.

        That is, apart from the claim of the event and from the end of the handler's own job.
        """
        if case.point is None or case.point.side == "before":
            return False
        last = self.marks[case.point.index]
        if last.phase == "receive" and not last.claimed:
            return False  # it is what the proof itself has enqueued
        if last.transaction is None:
            return last.ours in ENQUEUES
        held = {one.ours for one in self.marks if one.transaction == last.transaction}
        return last.ends and bool(held & ENQUEUES) and not held & (CLAIMS | DONE)

    def calls(self, told: str) -> list[int]:
        """Where a call was made."""
        return [
            index
            for index, mark in enumerate(self.marks)
            if mark.kind == "call" and mark.text == told
        ]

    def is_in_effect(self, index: int) -> bool:
        """Whether a step was taken inside ``job.effect``, between its two notes."""
        noted = [mark.ours for mark in self.marks[:index] if mark.ours in EFFECTS]
        return bool(noted) and noted[-1] == INTENDED

    def checked_around(self, index: int) -> str | None:
        """The table that was read before this step and written after it: a check and its mark."""
        read: set[str] = set()
        for mark in self.marks[:index]:
            if mark.theirs and mark.kind == "sql":
                read |= read_tables(mark.text)
        for mark in self.marks[index + 1 :]:
            if mark.theirs and mark.kind == "sql" and written_table(mark.text) in read:
                return written_table(mark.text)
        return None

    # By whom

    @property
    def has_order_guard(self) -> bool:
        """Whether the handler asks for an order already, by order= or tx.newer(…)."""
        return any(mark.ours == ORDERS for mark in self.marks)

    def handlers(self) -> list[set[str]]:
        """The jobs that were begun for each event, of several that came one after the other."""
        found: list[set[str]] = []
        receiving = False
        for mark in self.marks:
            if mark.phase == "receive" and not receiving:
                found.append(set())
            receiving = mark.phase == "receive"
            if mark.ours == TAKEN and found:
                found[-1].add(mark.text)
        return found
