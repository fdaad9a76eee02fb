"""What a proof finds: a difference, how it came about, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly.prove.comparing import HIDDEN, Difference
from duly.prove.databases.waiting import TOLD as WAITING
from duly.prove.databases.waiting import column_told
from duly.prove.talks import CallDifference

if TYPE_CHECKING:
    from duly.core.json_bytes import Json
    from duly.prove.calls import Call
    from duly.prove.cases import Case
    from duly.prove.databases import Left

LONGEST = 60


@dataclass(frozen=True, slots=True)
class Undone:
    """Work that was given up, although the single run did it."""

    left: Left


@dataclass(frozen=True, slots=True)
class OtherValue:
    """The user's own function of the database says something else."""

    expected: Any
    actual: Any


@dataclass(frozen=True, slots=True)
class Refused:
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


Wrong = Difference | CallDifference | Undone | OtherValue | Refused


@dataclass(frozen=True, slots=True)
class Mistake:
    """A known mistake by its name, and what to do about it."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Finding:
    """The first case that did not end as the single run did."""

    case: Case
    wrong: Wrong
    mistake: Mistake

    @property
    def story(self) -> str:
        """All of it, as one sentence after the other."""
        return f"{self.case.told}: {difference_text(self.wrong)}. {self.mistake.why}"

    def document(self) -> dict[str, Json]:
        """The same for programs."""
        return {
            "case": self.case.name,
            "what": self.case.told,
            "difference": difference_text(self.wrong),
            "mistake": self.mistake.name,
            "why": self.mistake.why,
            "story": self.story,
        }


def difference_text(wrong: Wrong) -> str:
    """What is not as it should be."""
    if isinstance(wrong, CallDifference):
        return call_text(wrong)
    if isinstance(wrong, OtherValue):
        return f"effects= is {shown(wrong.actual)} instead of {shown(wrong.expected)}"
    if isinstance(wrong, Undone):
        left = wrong.left
        end = "is dead" if left.state == "dead" else f"is left {left.state}"
        return f"the {left.what} {left.name} {end}{': ' if left.error else ''}{left.error[:200]}"
    if isinstance(wrong, Refused):
        answer = f"{wrong.status} {wrong.word}".strip()
        return f"the repeated delivery{wrong.where} was answered {answer}{wrong.failure}"
    return row_text(wrong)


def call_text(wrong: CallDifference) -> str:
    """A call that was not made as it should be."""
    if wrong.instead is not None:
        return f"{spoken(wrong.call)} came last instead of {spoken(wrong.instead)}"
    done = "made" if wrong.call.medium == "http" else "sent"
    counts = f"{times(wrong.actual)} instead of {times(wrong.expected)}"
    return f"{wrong.call.told} was {done} {counts}"


def row_text(wrong: Difference) -> str:
    """A table that is not as it should be."""
    place = f" in {wrong.base}" if wrong.base else ""
    if wrong.column is not None:
        where = f" of {named(wrong.row)}{place}" if wrong.row else place
        values = f"{shown(wrong.actual)} instead of {shown(wrong.expected)}"
        return f"{column_told(wrong.table, wrong.column)}{where} is {values}"
    counts = f"{times(wrong.actual)} instead of {times(wrong.expected)}"
    if wrong.table in WAITING:
        return f"of the {wrong.table}{place}, ({named(wrong.row)}) is there {counts}"
    return f"{wrong.table}{place} has the row ({named(wrong.row)}) {counts}"


def spoken(call: Call) -> str:
    """A call with what it says."""
    return f"{call.told} with {shown(call.body)}" if call.body else call.told


def named(row: dict[str, Any]) -> str:
    """A row by what is in it."""
    compared = [(name, one) for name, one in row.items() if not isinstance(one, tuple)]
    telling = [f"{name}={shown(one)}" for name, one in compared if one != HIDDEN]
    return ", ".join(telling[:4]) or "of new values only"


def shown(value: Any) -> str:
    """A value as a person reads it."""
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def times(count: int) -> str:
    """How often."""
    return {0: "not at all", 1: "once"}.get(count, f"{count} times")
