"""The planted bugs, read from their patches."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from verification.mutation.patching import changes_of

if TYPE_CHECKING:
    from verification.mutation.patching import Change

FOLDER = Path(__file__).parent
BREAKS, BY, SAYING = "breaks: ", "caught-by: ", "caught-saying: "
NO_PROMISE = "none"  # behind `breaks: `, where a defect is one of another kind
HEAD = (
    "write two lines above the diff, what the defect is and what it does to a user, then "
    f"`{BREAKS}PROMISE, PROMISE` as tests/README.md names them, `{BY}COMMAND` and `{SAYING}PHRASE`"
)


class Unreadable(Exception):
    """A patch whose head lacks something; the message says what."""


class Mutant(NamedTuple):
    """One planted bug.

    Args:
        name: of its patch, without the ending.
        defect: what is wrong.
        harm: what that does to a user.
        command: what must turn red.
        phrase: what it must say, so that it is red for the right reason.
        changes: what is done to the sources.
        breaks: the promises that it breaks, by their names.
    """

    name: str
    defect: str
    harm: str
    command: str
    phrase: str
    changes: list[Change]
    breaks: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """The command as it is run."""
        return shlex.split(self.command)


def mutant_of(path: Path) -> Mutant:
    """Read one patch."""
    head, mark, diff = path.read_text().partition("\n--- a/")
    lines = head.splitlines()
    broken, command, phrase = (after(lines, mark) for mark in (BREAKS, BY, SAYING))
    changes = changes_of(f"--- a/{diff}")
    if len(lines) != 5 or not (mark and all(lines) and broken and command and phrase and changes):
        raise Unreadable(f"{path.name} is not whole: {HEAD}")
    breaks = () if broken == NO_PROMISE else tuple(broken.split(", "))
    return Mutant(path.stem, lines[0], lines[1], command, phrase, changes, breaks)


def after(lines: list[str], mark: str) -> str:
    """What stands behind a mark; empty where it is nowhere."""
    return next((line.removeprefix(mark) for line in lines if line.startswith(mark)), "")


def shelf(folder: Path = FOLDER) -> list[Mutant]:
    """All of them, in the order of their names."""
    return [mutant_of(path) for path in sorted(folder.glob("*.patch"))]
