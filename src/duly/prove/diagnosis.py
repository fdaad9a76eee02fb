"""From a difference to the mistake behind it: what the handler did, in which order, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.prove import mistakes
from duly.prove.call_diff import CallDifference
from duly.prove.databases.pending_work import COMPARED_COLUMNS as WAITING
from duly.prove.findings import AbandonedWork, RefusedDelivery
from duly.prove.points import step_summary
from duly.prove.statements import is_delta, verb_of
from duly.prove.table_diff import TableDifference
from duly.prove.trace_queries import Trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.prove.calls import Call
    from duly.prove.cases import Case
    from duly.prove.findings import Mismatch, Mistake
    from duly.prove.trace import Mark


def diagnose(case: Case, wrong: Mismatch, marks: Sequence[Mark], calls: Sequence[Call]) -> Mistake:
    """The mistake that explains a difference.

    Args:
        case: what was done to the handler.
        wrong: what is not as after a single run.
        marks: what a single run did.
        calls: the calls of the case.
    """
    trace = Trace(marks)
    if isinstance(wrong, RefusedDelivery) and not wrong.failure:
        return mistakes.duplicate_refused()
    if case.shape in ("reordered", "again"):
        return order_mistake(trace, wrong, calls)
    if case.shape == "fail":
        return memory_mistake(trace, wrong, calls)
    if not is_missing(wrong) and trace.enqueued_last(case):
        return mistakes.enqueue_outside_transaction()
    return difference_mistake(trace, case, wrong, calls)


def difference_mistake(trace: Trace, case: Case, wrong: Mismatch, calls: Sequence[Call]) -> Mistake:
    """Why a handler that was killed, or paused, or came twice left something else."""
    if isinstance(wrong, CallDifference):
        return call_mistake(trace, case, wrong, calls)
    if isinstance(wrong, TableDifference):
        return row_mistake(trace, case, wrong)
    if isinstance(wrong, AbandonedWork):
        return failing_mistake(wrong.left.error)
    if isinstance(wrong, RefusedDelivery):
        return failing_mistake(wrong.failure)
    return value_mistake(trace, case)


def is_missing(wrong: Mismatch) -> bool:
    """Whether it is about something that was not done, and not about what was done again."""
    if isinstance(wrong, CallDifference):
        return wrong.actual < wrong.expected
    return isinstance(wrong, TableDifference) and is_lost(wrong)


def row_mistake(trace: Trace, case: Case, wrong: TableDifference) -> Mistake:
    """Why a table is not as it should be."""
    places = trace.writes(wrong.table)
    writes = [trace.marks[index] for index in places]
    early = [index for index in places if trace.is_before_claim(index)]
    if early:
        return mistakes.before_claim(step_summary(trace.marks[early[0]]))
    if is_lost(wrong):
        return lost_mistake(trace, case, places)
    if wrong.table in WAITING:
        return mistakes.enqueue_outside_transaction()
    late = [index for index in places if trace.is_after_acceptance(index)]
    if late:
        return mistakes.in_route(step_summary(trace.marks[late[0]]))
    if writes and not any(trace.is_outside(mark) for mark in writes):
        return mistakes.ends_differently()
    return written_mistake(wrong, writes)


def written_mistake(wrong: TableDifference, writes: Sequence[Mark]) -> Mistake:
    """Why a repeat of these statements leaves something else."""
    if is_repeated(wrong) or any(is_delta(mark.text) for mark in writes if wrong.column):
        return mistakes.delta()
    inserts = [mark for mark in writes if verb_of(mark.text) == "INSERT"]
    if wrong.column is None and (inserts or not writes):
        return mistakes.blind_insert()
    return mistakes.unknown()


def is_lost(wrong: TableDifference) -> bool:
    """Whether what a single run does was not done at all."""
    if wrong.column is None:
        return bool(wrong.actual < wrong.expected)
    return bool(wrong.actual == wrong.before and wrong.expected != wrong.before)


def is_repeated(wrong: TableDifference) -> bool:
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
    call, made = wrong.call, trace.calls(wrong.call.summary)
    if wrong.actual < wrong.expected:
        return lost_mistake(trace, case, made, call)
    if any(trace.is_before_claim(index) for index in made):
        return mistakes.before_claim(call.summary)
    if any(trace.is_after_acceptance(index) for index in made):
        return mistakes.in_route(call.summary)
    if wrong.instead is not None:
        return mistakes.unknown()
    return repeated_mistake(trace, call, made, calls)


def repeated_mistake(
    trace: Trace, call: Call, made: Sequence[int], calls: Sequence[Call]
) -> Mistake:
    """Why a repeated handler makes a call that the other side takes for another one."""
    table = next((found for index in made if (found := trace.checked_around(index))), None)
    if table is not None and call.key is None:
        return mistakes.check_then_act(table)
    inline = any(trace.is_inline(index) for index in made)
    if call.medium == "mail":
        return mistakes.mail(inline=inline)
    if call.medium == "message":
        return mistakes.enqueue_outside_transaction()
    if has_new_keys(call, calls):
        return mistakes.new_key(inline=inline)
    if any(trace.is_in_effect(index) for index in made):
        return mistakes.key_dropped()
    return mistakes.no_key(inline=inline)


def has_new_keys(call: Call, calls: Sequence[Call]) -> bool:
    """Whether a call was made under one key and then under another."""
    keys = {one.key for one in calls if one.origin == call.origin}
    return call.key is not None and len(keys) > 1


def memory_mistake(trace: Trace, wrong: Mismatch, calls: Sequence[Call]) -> Mistake:
    """Why the attempt after one that was rolled back does something else."""
    if isinstance(wrong, CallDifference) and not is_missing(wrong):
        call, made = wrong.call, trace.calls(wrong.call.summary)
        if call.medium == "message" or has_new_keys(call, calls):
            return repeated_mistake(trace, call, made, calls)
    return mistakes.memory()


def value_mistake(trace: Trace, case: Case) -> Mistake:
    """Why the user's own function says something else: by what was written last."""
    before = trace.outside_writes(case)
    if before and is_delta(before[-1].text):
        return mistakes.delta()
    if before and verb_of(before[-1].text) == "INSERT":
        return mistakes.blind_insert()
    return mistakes.unknown()


def lost_mistake(
    trace: Trace, case: Case, places: Sequence[int], call: Call | None = None
) -> Mistake:
    """Something was not done, be it a call or what is done at these places of a single run."""
    if places and all(
        trace.is_after_settling(index) or trace.is_after_acceptance(index) for index in places
    ):
        return mistakes.after_commit(step_summary(trace.marks[places[0]]), call)
    before = trace.outside_writes(case)
    return mistakes.mark_first(step_summary(before[-1]), call) if before else mistakes.unknown()


def failing_mistake(error: str) -> Mistake:
    """A repeat that fails each time it is tried."""
    told = error.lower()
    if "unique" in told or "duplicate key" in told:
        return mistakes.row_is_there()
    return mistakes.unknown()


def order_mistake(trace: Trace, wrong: Mismatch, calls: Sequence[Call]) -> Mistake:
    """Why another order of the events ends differently."""
    if isinstance(wrong, CallDifference) and has_shared_key(wrong.call, calls):
        return mistakes.shared_key()
    handlers = trace.handlers()
    if any(one != handlers[0] for one in handlers):
        return mistakes.orders_apart()
    if trace.has_order_guard:
        return mistakes.order_not_enough()
    return mistakes.order(inline=not any(handlers))


def has_shared_key(call: Call, calls: Sequence[Call]) -> bool:
    """Whether another call says something else under the same key."""
    same = [one for one in calls if call.key is not None and one.repeats == call.repeats]
    return any(one.content != call.content for one in same)
