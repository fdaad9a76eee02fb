"""Applies a unified diff, strictly: its lines must be there as they are, wherever they have gone.

In Python, because not every machine has `patch`, and that one would guess.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

# The line where it begins, and how many lines there were, and will be; one where nothing is said.
HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")


class Stale(Exception):
    """A patch that does not fit the sources; the message says where."""


class Hunk(NamedTuple):
    """Some lines, and what becomes of them."""

    line: int
    old: list[str]
    new: list[str]


@dataclass(slots=True)
class Change:
    """The hunks of one file."""

    path: str
    hunks: list[Hunk] = field(default_factory=list)

    def changed(self, root: Path) -> str:
        """The file after the change; `Stale` where it is not what the patch was made for."""
        path = root / self.path
        if not path.is_file():
            raise Stale(f"{self.path} is gone")
        lines = path.read_text().split("\n")
        for hunk in reversed(self.hunks):  # from below: what is above keeps its place
            at = self._found(lines, hunk)
            lines[at : at + len(hunk.old)] = hunk.new
        return "\n".join(lines)

    def _found(self, lines: Sequence[str], hunk: Hunk) -> int:
        """Where the old lines are: in their place, or in just one other."""
        size = len(hunk.old)
        places = [at for at in range(len(lines) - size + 1) if lines[at : at + size] == hunk.old]
        if hunk.line - 1 in places:
            return hunk.line - 1
        if len(places) != 1:
            seen = "are not there any more" if not places else f"are there {len(places)} times"
            raise Stale(f"{self.path}: the lines from {hunk.line} on {seen}")
        return places[0]


def changes_of(diff: str) -> list[Change]:
    """The files that a diff changes."""
    lines = iter(diff.splitlines())
    changes: list[Change] = []
    for line in lines:
        if line.startswith("+++ "):
            changes.append(Change(line.split()[1].partition("/")[2]))
        elif changes and (found := HUNK.match(line)):
            changes[-1].hunks.append(hunk_of(found, lines))
    return changes


def hunk_of(found: re.Match[str], lines: Iterator[str]) -> Hunk:
    """Read as many lines as a hunk says: a comment of SQL's that goes looks like a file's name."""
    hunk = Hunk(int(found[1]), [], [])
    olds, news = int(found[2] or 1), int(found[3] or 1)
    while len(hunk.old) < olds or len(hunk.new) < news:
        line = next(lines, None)
        if line is None:
            raise Stale(f"the diff ends before its hunk at line {hunk.line} does")
        if line[:1] in ("", " ", "-"):
            hunk.old.append(line[1:])
        if line[:1] in ("", " ", "+"):
            hunk.new.append(line[1:])
    return hunk
