"""Jobs that wait for an operator, as ``job.effect(…, unknown="park")`` asks for.

Where it is unknown whether a step was taken, such a job stops and says so. It has not failed, and
what it had still to do is not lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.prove.call_diff import CallDifference
from duly.prove.diagnosis import is_lost
from duly.prove.findings import AbandonedWork, OtherValue, RefusedDelivery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.prove.databases import UnfinishedWork
    from duly.prove.findings import Mismatch

# How the error of such a job begins, after the name of its type.
ASKS = "it is unknown whether effect "


def waits_for_person(left: Sequence[UnfinishedWork]) -> bool:
    """Whether everything that is left waits for an operator."""
    return bool(left) and all(one.state == "dead" and ASKS in one.error for one in left)


def is_undone(wrong: Mismatch) -> bool:
    """Whether something is missing that the job does when it goes on; twice is never allowed."""
    if isinstance(wrong, CallDifference):
        return wrong.actual < wrong.expected
    if isinstance(wrong, RefusedDelivery):
        return False
    return isinstance(wrong, AbandonedWork | OtherValue) or is_lost(wrong)


def note_of(cases: Sequence[str]) -> str:
    """What to say of the cases that ended so."""
    return (
        f"in {', '.join(cases)} the job stopped at an effect with unknown='park', to ask a person: "
        "what it does after that was not compared"
    )
