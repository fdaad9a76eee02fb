"""What a proof says: a few lines for people, one document for programs."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from duly.prove.cases import COPIES

if TYPE_CHECKING:
    from duly.core.json_bytes import Json
    from duly.prove.proof import Verdict

WIDTH = 79
SHAPES = {
    "twice": "delivered twice",
    "at-once": f"{COPIES} copies at once",
    "reordered": "in the other order",
    "again": "again after a later one",
    "kill": "killed at",
    "pause": "late worker at",
    "fail": "failed once",
}


def verdict_text(verdict: Verdict, again: str) -> str:
    """The verdict; ``again`` is the command that shows the failing case alone."""
    finding = verdict.finding
    if finding is None and verdict.only is not None:
        lines = [f"{verdict.only} ended as the single run did; the other cases were not tried."]
    elif finding is None:
        lines = ["Effectively once: every case ended as the single run did."]
    else:
        lines = [
            f"Not safe to repeat: {finding.mistake.name}.",
            "",
            *wrap_text(finding.story, "  "),
            "",
            f"Only this case: {again} --only {finding.case.name}",
        ]
    lines += [*wrap_text(f"Tried: {tried_text(verdict)}.")]
    if verdict.hidden:
        told = ", ".join(verdict.hidden)
        lines += wrap_text(f"Not compared, because two single runs differ there: {told}.")
    lines += [line for note in verdict.notes for line in wrap_text(f"Note: {note}.")]
    lines += [f"Kept: {place}" for place in verdict.kept]
    return "\n".join(lines)


def wrap_text(text: str, indent: str = "") -> list[str]:
    """A paragraph."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def tried_text(verdict: Verdict) -> str:
    """How much was tried."""
    parts = []
    for shape, count in verdict.tried.items():
        told = SHAPES[shape]
        points = f"{count} point{'' if count == 1 else 's'}"
        parts.append(f"{told} {points}" if shape in ("kill", "pause") else told)
    return ", ".join(parts)


def verdict_document(verdict: Verdict, again: str) -> dict[str, Json]:
    """The same for programs."""
    finding = verdict.finding
    # One case says nothing about the others, unless it failed.
    untold = finding is None and verdict.only is not None
    return {
        "effectively_once": None if untold else finding is None,
        "only": verdict.only,
        "finding": None if finding is None else finding.document(),
        "again": None if finding is None else f"{again} --only {finding.case.name}",
        "tried": dict(verdict.tried),
        "not_compared": list(verdict.hidden),
        "notes": list(verdict.notes),
        "kept": list(verdict.kept),
    }
