"""What is asked of the database of a storm, of either kind.

Every look is a connection of its own that is closed again: processes are forked all the time, and
none of them may inherit one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.core.errors import DulyError
from duly.demo.settings import SCHEMA

if TYPE_CHECKING:
    from duly.demo.settings import Settings

OURS = ("effects", "accounts", "leases", "breaches", "lease", "breach")
# Nobody has minutes here to wait for a job that comes back for the fourth time.
HURRY = "UPDATE {jobs} SET run_at = {now} WHERE state = 'ready' AND rescues > 0 AND run_at > {now}"
LOOK = "SELECT sum(n), (SELECT count(*) FROM {jobs} WHERE state = 'dead') FROM {accounts}"
LEFT = "SELECT (SELECT count(*) FROM {jobs} WHERE state <> 'dead'), (SELECT count(*) FROM {outbox})"


class StormProgress(NamedTuple):
    """How far everything is."""

    handled: int
    """Effects there are."""
    dead: int
    """Events that were given up."""


class Remaining(NamedTuple):
    """What is still to be done."""

    jobs: int
    messages: int


class Unreachable(DulyError):
    """The database cannot be asked just now."""


class StormDatabase(ABC):
    """What both kinds of database share."""

    now = ""
    bytes_type = ""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        names = ("jobs", "outbox", "events", "history", "workers")
        self._names = {name: settings.table(f"duly_{name}") for name in names}
        self._names |= {name: settings.table(name) for name in OURS}
        self._names |= {"now": self.now, "bytes": self.bytes_type, "schema": SCHEMA}

    def fill_table_names(self, statement: str) -> str:
        """A statement with the names that the tables have."""
        return statement.format(**self._names)

    def read_progress(self) -> StormProgress:
        """See how far everything is, and hurry; raises `Unreachable` where it cannot be seen."""
        return StormProgress(*map(int, self.fetch_progress_row()))

    def count_remaining(self) -> Remaining:
        """Count what is still to be done: not to be asked often while there is much."""
        [row] = self.query(LEFT)
        return Remaining(*map(int, row))

    @abstractmethod
    def fetch_progress_row(self) -> tuple[Any, ...]:
        """One row of `POLL_INTERVAL`; jobs that come back after a rescue come back now."""

    @abstractmethod
    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of one statement, on a connection of its own."""
