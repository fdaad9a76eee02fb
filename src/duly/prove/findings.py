"""What a proof finds: a difference, how it came about, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly.prove.call_diff import CallDifference
from duly.prove.databases.pending_work import COMPARED_COLUMNS as WAITING
from duly.prove.databases.pending_work import column_label
from duly.prove.table_diff import HIDDEN, TableDifference

if TYPE_CHECKING:
    from duly.core.json_bytes import Json
    from duly.prove.calls import Call
    from duly.prove.cases import Case
    from duly.prove.databases import UnfinishedWork

LONGEST = 60


@dataclass(frozen=True, slots=True)
class AbandonedWork:
    """Work that was given up, although the single run did it."""

    left: UnfinishedWork


@dataclass(frozen=True, slots=True)
class OtherValue:
    """The user's own function of the database says something else."""

    expected: Any
    actual: Any


@dataclass(frozen=True, slots=True)
class RefusedDelivery:
    """A delivery that was not answered 2xx when its sender came again, either.

    Args:
        where: where it went, for a sentence about it.
        status: what it was answered.
        word: duly's word for it.
        failure: what its handler failed with, if it did, for the end of a sentence.
    """

    where: str
    status: int
    word: str
    failure: str = ""


Mismatch = TableDifference | CallDifference | AbandonedWork | OtherValue | RefusedDelivery


@dataclass(frozen=True, slots=True)
class Mistake:
    """A known mistake by its name, and what to do about it."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Finding:
    """The first case that did not end as the single run did."""

    case: Case
    wrong: Mismatch
    mistake: Mistake

    @property
    def story(self) -> str:
        """All of it, as one sentence after the other."""
        return f"{self.case.description}: {difference_text(self.wrong)}. {self.mistake.why}"

    def document(self) -> dict[str, Json]:
        """The same for programs."""
        return {
            "case": self.case.name,
            "what": self.case.description,
            "difference": difference_text(self.wrong),
            "mistake": self.mistake.name,
            "why": self.mistake.why,
            "story": self.story,
        }


def difference_text(wrong: Mismatch) -> str:
    """What is not as it should be."""
    if isinstance(wrong, CallDifference):
        return call_text(wrong)
    if isinstance(wrong, OtherValue):
        return f"effects= is {format_value(wrong.actual)} instead of {format_value(wrong.expected)}"
    if isinstance(wrong, AbandonedWork):
        left = wrong.left
        end = "is dead" if left.state == "dead" else f"is left {left.state}"
        return f"the {left.what} {left.name} {end}{': ' if left.error else ''}{left.error[:200]}"
    if isinstance(wrong, RefusedDelivery):
        answer = f"{wrong.status} {wrong.word}".strip()
        return f"the repeated delivery{wrong.where} was answered {answer}{wrong.failure}"
    return row_text(wrong)


def call_text(wrong: CallDifference) -> str:
    """A call that was not made as it should be."""
    if wrong.instead is not None:
        return f"{call_with_body(wrong.call)} came last instead of {call_with_body(wrong.instead)}"
    done = "made" if wrong.call.medium == "http" else "sent"
    counts = f"{times(wrong.actual)} instead of {times(wrong.expected)}"
    return f"{wrong.call.summary} was {done} {counts}"


def row_text(wrong: TableDifference) -> str:
    """A table that is not as it should be."""
    place = f" in {wrong.base}" if wrong.base else ""
    if wrong.column is not None:
        where = f" of {row_summary(wrong.row)}{place}" if wrong.row else place
        values = f"{format_value(wrong.actual)} instead of {format_value(wrong.expected)}"
        return f"{column_label(wrong.table, wrong.column)}{where} is {values}"
    counts = f"{times(wrong.actual)} instead of {times(wrong.expected)}"
    if wrong.table in WAITING:
        return f"of the {wrong.table}{place}, ({row_summary(wrong.row)}) is there {counts}"
    return f"{wrong.table}{place} has the row ({row_summary(wrong.row)}) {counts}"


def call_with_body(call: Call) -> str:
    """A call with what it says."""
    return f"{call.summary} with {format_value(call.body)}" if call.body else call.summary


def row_summary(row: dict[str, Any]) -> str:
    """A row by what is in it."""
    compared = [(name, one) for name, one in row.items() if not isinstance(one, tuple)]
    telling = [f"{name}={format_value(one)}" for name, one in compared if one != HIDDEN]
    return ", ".join(telling[:4]) or "of new values only"


def format_value(value: Any) -> str:
    """A value as text for the report."""
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def times(count: int) -> str:
    """How often."""
    return {0: "not at all", 1: "once"}.get(count, f"{count} times")
