"""All databases of a proof, restored together once no process writes to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.core.errors import UsageError
from duly.prove.databases.file_list import read_list, remove_partial_copies
from duly.prove.databases.open_by_others import ProofProcesses, refuse_in_use
from duly.prove.databases.sqlite import RestorableSqlite

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from duly.core.defaults import Names
    from duly.prove.databases.base import RestorableDatabase
    from duly.prove.databases.discovery import ProofDatabase


class NewFileUsed(UsageError):
    """A case has used a file that the single run did not, so that it was not compared."""


class DatabaseSet:
    """The databases that are known; each process of a proof may add files to their list.

    Args:
        ground: duly's own database, and the list.
        names: what duly's tables are called.
        ours: the processes of the proof.
    """

    def __init__(self, ground: ProofDatabase, names: Names, ours: ProofProcesses) -> None:
        self._list = ground.files
        self._names = names
        self._ours = ours
        self._known: list[RestorableDatabase] = [] if ground.base is None else [ground.base]
        self._begun: list[RestorableDatabase] = []

    def __iter__(self) -> Iterator[RestorableDatabase]:
        return iter(self._known)

    def _gather(self) -> None:
        """Know those that were met meanwhile; a file that came and went leaves nothing to know."""
        known = {file for base in self._known for file in base.files}
        for file in read_list(self._list):
            base = RestorableSqlite(file, self._names)
            if file in known:
                continue
            if base.came_and_went:
                base.restore_original()
            else:
                self._known.append(base)

    def put_back(self) -> None:
        """Restore the databases; no process of the proof may be running."""
        self._gather()
        refuse_in_use([file for base in self._known for file in base.files], self._ours)
        for base in self._known:
            base.put_back()

    def mark_start(self, place: Path) -> None:
        """Let cases begin in the state that everything is in now."""
        for base in self._known:
            base.mark_start(place)
        self._begun = [*self._known]

    def refuse_wider(self) -> None:
        """Raise `NewFileUsed` where a case has met a file that was not there to be compared."""
        self._gather()
        for base in self._known:
            if base not in self._begun:
                raise NewFileUsed(base.name)

    def restore_original(self) -> None:
        """Everything as it was found; what cannot be is named, and the state before stays."""
        self._gather()
        problems = []
        for base in self._known:
            try:
                refuse_in_use(base.files, self._ours)
                base.restore_original()
            except Exception as problem:
                problems.append(f"{base.name} (before: {base.original_place}): {problem}")
        remove_partial_copies(self._list)
        if problems:
            raise UsageError(
                "not everything could be put back, and is as a case made it: "
                f"{'; '.join(problems)}. Move the state before over it, or remove that, whichever "
                "you want to keep"
            )
