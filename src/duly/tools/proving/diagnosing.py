"""From a difference to the mistake behind it: what the handler did, in which order, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.tools.proving.comparing import Difference
from duly.tools.proving.databases.waiting import TOLD as WAITING
from duly.tools.proving.findings import Mistake, Undone
from duly.tools.proving.points import words
from duly.tools.proving.statements import is_delta, read_tables, verb_of, written_table
from duly.tools.proving.talks import CallDifference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.tools.proving.calls import Call
    from duly.tools.proving.cases import Case
    from duly.tools.proving.findings import Wrong
    from duly.tools.proving.trace import Mark

BLIND_INSERT = "blind insert"
DELTA = "delta update outside the transaction"
MARK_FIRST = "mark before work"
CHECK_THEN_ACT = "check, then act"
NO_KEY = "call without idempotency key"
NEW_KEY = "idempotency key made anew"
BEFORE_CLAIM = "side effect before the claim"
ORDER = "order-dependent write"
MEMORY = "state in the process"
ENQUEUED = "enqueue outside the transaction"
NOT_REPEATABLE = "a repeat ends differently"


def diagnosed(case: Case, wrong: Wrong, marks: Sequence[Mark], calls: Sequence[Call]) -> Mistake:
    """The mistake that explains a difference.

    Args:
        case: what was done to the handler.
        wrong: what is not as after a single run.
        marks: what a single run did.
        calls: the calls of the case.
    """
    if case.shape in ("reordered", "again"):
        return order_mistake()
    if case.shape == "fail":
        return memory_mistake()
    trace = Trace(marks)
    if isinstance(wrong, CallDifference):
        return call_mistake(trace, case, wrong, calls)
    if isinstance(wrong, Difference):
        return row_mistake(trace, case, wrong)
    if isinstance(wrong, Undone):
        return undone_mistake(wrong)
    return value_mistake(trace, case)


class Trace:
    """What a single run did, with the questions that a diagnosis asks."""

    def __init__(self, marks: Sequence[Mark]) -> None:
        self.marks = marks
        self._fenced = {mark.transaction for mark in marks if mark.ours} - {None}

    def outside(self, mark: Mark) -> bool:
        """Whether a write does not share the fate of the claim, or of the job's end."""
        return mark.transaction is None or mark.transaction not in self._fenced

    def early(self, mark: Mark) -> bool:
        """Whether it was done before the event was claimed, so that every copy does it."""
        return mark.phase == "receive" and not mark.claimed

    def writes(self, table: str) -> list[Mark]:
        """The user's statements that write to a table, whatever schema they name or leave out."""
        name = table.lower().rpartition(".")[2]
        return [mark for mark in self.marks if mark.theirs and written_table(mark.text) == name]

    def outside_writes(self, case: Case) -> list[Mark]:
        """What the user's code had written outside the transaction when it was killed."""
        reached = self.marks if case.point is None else self.marks[: case.point.index + 1]
        return [
            mark
            for mark in reached
            if mark.theirs and mark.kind == "sql" and verb_of(mark.text) and self.outside(mark)
        ]

    def calls(self, told: str) -> list[int]:
        """Where a call was made."""
        return [
            index
            for index, mark in enumerate(self.marks)
            if mark.kind == "call" and mark.text == told
        ]

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


def row_mistake(trace: Trace, case: Case, wrong: Difference) -> Mistake:
    """Why a table is not as it should be."""
    writes = trace.writes(wrong.table)
    early = [mark for mark in writes if trace.early(mark)]
    if early:
        return early_mistake(words(early[0]))
    if is_lost(wrong):
        return lost_mistake(trace, case)
    if wrong.table in WAITING:
        return enqueued_mistake()
    if is_repeated(wrong) or any(is_delta(mark.text) for mark in writes if wrong.column):
        return delta_mistake()
    inserts = [mark for mark in writes if verb_of(mark.text) == "INSERT"]
    if wrong.column is None and (inserts or not writes):
        return insert_mistake()
    return unknown()


def is_lost(wrong: Difference) -> bool:
    """Whether what a single run does was not done at all."""
    if wrong.column is None:
        return bool(wrong.actual < wrong.expected)
    return bool(wrong.actual == wrong.before and wrong.expected != wrong.before)


def is_repeated(wrong: Difference) -> bool:
    """Whether a number has moved several times as far as in a single run."""
    values: tuple[Any, ...] = (wrong.before or 0, wrong.expected, wrong.actual)
    if wrong.column is None or any(isinstance(value, bool | str | bytes) for value in values):
        return False
    try:
        step, moved = values[1] - values[0], values[2] - values[0]
        return bool(step and moved != step and moved % step == 0 and moved / step > 1)
    except (TypeError, ArithmeticError):
        return False


def call_mistake(trace: Trace, case: Case, wrong: CallDifference, calls: Sequence[Call]) -> Mistake:
    """Why a call was made more or less often than in a single run."""
    if wrong.actual < wrong.expected:
        return lost_mistake(trace, case)
    made = trace.calls(wrong.call.told)
    if any(trace.early(trace.marks[index]) for index in made):
        return early_mistake(wrong.call.told)
    if wrong.instead is not None:
        return unknown()
    table = next((found for index in made if (found := trace.checked_around(index))), None)
    if table is not None and wrong.call.key is None:
        return Mistake(
            CHECK_THEN_ACT,
            f"It is made between the look at {table} and the mark there, and nothing holds the "
            "three together: stage it with tx.send(…) in the transaction that writes the mark, so "
            "that the relay sends it under one id.",
        )
    keys = {call.key for call in calls if call.origin == wrong.call.origin}
    if wrong.call.key is not None and len(keys) > 1:
        return Mistake(
            NEW_KEY,
            "Each attempt carries another key, so that the other side cannot know the second one: "
            "use job.key(…), which is the same in every attempt.",
        )
    return Mistake(
        NO_KEY,
        "It carries no Idempotency-Key, so that the other side cannot know the second one: let the "
        "handler ask for job, and call job.http.post(…, key=…) or send job.key(…) along; or stage "
        "it with tx.send(…).",
    )


def value_mistake(trace: Trace, case: Case) -> Mistake:
    """Why the user's own function says something else: by what was written last."""
    before = trace.outside_writes(case)
    if before and is_delta(before[-1].text):
        return delta_mistake()
    return insert_mistake() if before and verb_of(before[-1].text) == "INSERT" else unknown()


def lost_mistake(trace: Trace, case: Case) -> Mistake:
    """Something was not done: what was written before it made the repeat believe that it was."""
    before = trace.outside_writes(case)
    if not before:
        return unknown()
    return Mistake(
        MARK_FIRST,
        f"{words(before[-1])} says that the event is done before it is, so that the repeat finds "
        "the mark and does nothing: write the mark and do the work through `tx`, in one COMMIT.",
    )


def undone_mistake(wrong: Undone) -> Mistake:
    """A repeat that fails each time it is tried."""
    told = wrong.left.error.lower()
    if "unique" in told or "duplicate key" in told:
        return Mistake(
            BLIND_INSERT,
            "The row of the first run is there already, and the repeat fails on it each time: "
            "insert it through `tx`, or with ON CONFLICT DO NOTHING.",
        )
    return unknown()


def delta_mistake() -> Mistake:
    """Something that is added each time."""
    return Mistake(
        DELTA, "The update is a delta outside the transaction: set a state, or move it into `tx`."
    )


def insert_mistake() -> Mistake:
    """A row that is inserted each time."""
    return Mistake(
        BLIND_INSERT,
        "The row is inserted outside the transaction, so that a repeat inserts it again: insert it "
        "through `tx`, or under a unique key made from the event, with ON CONFLICT DO NOTHING.",
    )


def enqueued_mistake() -> Mistake:
    """A job or a message for later that is put there each time."""
    return Mistake(
        ENQUEUED,
        "It is committed apart from the end of the handler's job, so that a repeat adds another "
        "one: use tx.enqueue(…) or tx.send(…), or give it a key= that is made from the event.",
    )


def early_mistake(what: str) -> Mistake:
    """Something that every copy of a delivery does."""
    return Mistake(
        BEFORE_CLAIM,
        f"{what} comes before the event is claimed, so that every copy of it does this again: move "
        "it into the handler, which runs after the claim.",
    )


def order_mistake() -> Mistake:
    """Whoever comes last wins."""
    return Mistake(
        ORDER,
        "The handler writes what its event says, even if a later one was applied before: declare "
        "order= on it with the two places in the event that name what it is about and its version "
        '(order=("data.object.id", "created") for Stripe), ask tx.newer(…), or let refetch= ask '
        "for the present state.",
    )


def memory_mistake() -> Mistake:
    """What an attempt that was rolled back has left, and a new process would not find."""
    return Mistake(
        MEMORY,
        "The database took the failed attempt back, the memory of the process did not: a cache, a "
        "global or an object that was changed made the next attempt do something else. Keep it in "
        "the database, through `tx`.",
    )


def unknown() -> Mistake:
    """Nothing that has a name."""
    return Mistake(
        NOT_REPEATABLE,
        "The handler is not safe to repeat: write through `tx`, so that its work and the end of "
        "its job are one COMMIT, and stage calls with tx.send(…).",
    )
