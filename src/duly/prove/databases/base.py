"""What the prover does with a database of either kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from duly.stores.sql.statements import TABLES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from duly.core.defaults import Names

Rows = list[dict[str, Any]]


class Column(NamedTuple):
    """A column of a table."""

    name: str
    # Whether the database fills it in: a sequence, an identity, a random default.
    made: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the user's."""

    name: str
    columns: tuple[Column, ...]
    # The columns of its primary key.
    key: tuple[str, ...]

    @property
    def generated_columns(self) -> frozenset[str]:
        """The columns that the database fills in."""
        return frozenset(column.name for column in self.columns if column.made)


class UnfinishedWork(NamedTuple):
    """A job or a message that was not done when all was quiet."""

    what: str
    name: str
    state: str
    error: str
    # The last line of the user's own code that the error went through, for the end of a sentence.
    place: str = ""


class RestorableDatabase(Protocol):
    """A database that cases begin with, always in the same state."""

    @property
    def name(self) -> str:
        """What people know it by."""

    @property
    def files(self) -> list[Path]:
        """The files that no other process may have open."""

    @property
    def original_place(self) -> str:
        """Where the state is in which it was found."""

    def put_back(self) -> None:
        """Bring it to the state in which cases begin."""

    def shift_numbers(self) -> None:
        """Let numbers that the database gives out go on from elsewhere."""

    def mark_start(self, place: Path) -> None:
        """Let cases begin in the state that it is in now; a folder for what has to be kept."""

    def restore_original(self) -> None:
        """Bring it to the state in which it was found, and remove what was kept for that."""

    def save_copy(self, place: Path) -> str:
        """Keep its present state for the user to look at; return where it is."""

    def contents(self, wanted: Sequence[str] | None) -> list[tuple[Table, Rows]]:
        """What is in the tables that are not duly's, or in those that are wanted.

        Jobs and messages that wait are always among it, as if they were tables.
        """


# How far: what stems from such a number then differs between two single runs, and is known by
# that; a run that is rolled back leaves a gap in them, which means nothing.
SHIFT = 1009


def duly_table_names(names: Names) -> frozenset[str]:
    """The names of duly's own tables: exactly these, not all with the same prefix."""
    return frozenset(f"{names.prefix}{name}" for name in TABLES)


def is_wanted(name: str, wanted: Sequence[str] | None) -> bool:
    """Whether a table is to be compared; a name without its schema will do."""
    known = name.lower()
    return wanted is None or known in wanted or known.rpartition(".")[2] in wanted


# Leases run out and waits are over, but only of what was tried before: a job that is meant for
# later stays where it is.
AGING = (
    "UPDATE {jobs} SET deadline = {past} WHERE state = 'leased'",
    "UPDATE {jobs} SET run_at = {now}, waiting = {no}"
    " WHERE state = 'ready' AND (attempts > 0 OR rescues > 0)",
    "UPDATE {outbox} SET lease_until = {past} WHERE state = 'leased'",
    "UPDATE {outbox} SET run_at = {now}, waiting = {no}"
    " WHERE state = 'ready' AND (attempts > 0 OR rescues > 0)",
    "UPDATE {claims} SET lease_until = {past} WHERE state = 'held'",
)
LEFT = (
    "SELECT 'job', name, state, last_error FROM {jobs}"
    " WHERE state <> 'ready' OR attempts > 0 OR rescues > 0 OR NOT {waiting}"
    " UNION ALL SELECT 'message', destination, state, last_error FROM {outbox}"
    " WHERE state <> 'ready' OR attempts > 0 OR rescues > 0 OR NOT {waiting}"
)
STAGED = "SELECT 1 FROM {outbox} WHERE state <> 'dead'"
