"""The database of a storm: its tables and triggers, and what is asked of it.

No table has a unique constraint, so a double cannot hide. Triggers record what may never happen to
a job. Every look is a connection of its own that is closed again: processes are forked all the
time, and none of them may inherit one.
"""

# ruff: noqa: S608 - names of tables, and nothing from outside

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.core.errors import DulyError
from duly.demo.settings import SCHEMA
from duly.demo.shop import ACCOUNTS

if TYPE_CHECKING:
    from duly.demo.settings import Settings

# Transitions that a job may never make: see duly.core.states.
NEVER = """
       new.epoch < old.epoch OR new.attempts < old.attempts OR new.rescues < old.rescues
    OR new.attempts > new.max_attempts OR new.rescues > 5
    OR (new.state = 'leased') <> (new.token IS NOT NULL)
    OR (new.state = 'leased' AND old.state <> 'ready')
    OR (new.state = 'leased' AND new.epoch <> old.epoch + 1)
    OR (new.state <> 'leased' AND new.epoch <> old.epoch)
    OR (new.state = 'dead' AND old.state <> 'leased')
    OR (old.state = 'dead')
"""
# Most jobs are leased once: only later leases are recorded.
AGAIN = "new.state = 'leased' AND new.epoch > 1"

TABLES = (
    "CREATE TABLE {effects} (event text, amount bigint, job text, epoch bigint)",
    "CREATE TABLE {accounts} (account integer, balance bigint, n bigint)",
    "CREATE TABLE {leases} (job text, epoch bigint, token {bytes})",
    "CREATE TABLE {breaches} (job text, was text, became text)",
    "INSERT INTO {accounts} VALUES " + ", ".join(f"({n}, 0, 0)" for n in range(ACCOUNTS)),
)
ON_SQLITE = (
    f"CREATE TRIGGER storm_leases AFTER UPDATE ON {{jobs}} WHEN {AGAIN} BEGIN"
    " INSERT INTO {leases} VALUES (new.id, new.epoch, new.token); END",
    f"CREATE TRIGGER storm_breaches AFTER UPDATE ON {{jobs}} WHEN {NEVER} BEGIN"
    " INSERT INTO {breaches} VALUES (new.id, old.state, new.state); END",
    "CREATE TRIGGER storm_drops AFTER DELETE ON {jobs} WHEN old.state <> 'leased' BEGIN"
    " INSERT INTO {breaches} VALUES (old.id, old.state, 'gone'); END",
)
ON_POSTGRES = (
    "CREATE FUNCTION {lease}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN"
    " INSERT INTO {leases} VALUES (new.id, new.epoch, new.token); RETURN NULL; END'",
    "CREATE FUNCTION {breach}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN"
    " INSERT INTO {breaches} VALUES (old.id, old.state, new.state); RETURN NULL; END'",
    "CREATE TRIGGER storm_leases AFTER UPDATE ON {jobs} FOR EACH ROW"
    f" WHEN ({AGAIN}) EXECUTE FUNCTION {{lease}}()",
    "CREATE TRIGGER storm_breaches AFTER UPDATE ON {jobs} FOR EACH ROW"
    f" WHEN ({NEVER}) EXECUTE FUNCTION {{breach}}()",
    "CREATE TRIGGER storm_drops AFTER DELETE ON {jobs} FOR EACH ROW"
    " WHEN (old.state <> 'leased') EXECUTE FUNCTION {breach}()",
)
OWN_TABLES = ("effects", "accounts", "leases", "breaches", "lease", "breach")
# A job that comes back for the fourth time would wait for minutes.
HURRY = "UPDATE {jobs} SET run_at = {now} WHERE state = 'ready' AND rescues > 0 AND run_at > {now}"
LOOK = "SELECT sum(n), (SELECT count(*) FROM {jobs} WHERE state = 'dead') FROM {accounts}"
LEFT = "SELECT (SELECT count(*) FROM {jobs} WHERE state <> 'dead'), (SELECT count(*) FROM {outbox})"


class StormProgress(NamedTuple):
    """What is finished."""

    handled: int
    """Effects in the tables."""
    dead: int
    """Events whose jobs are dead."""


class Remaining(NamedTuple):
    """What is still to be done."""

    jobs: int
    messages: int


class Unreachable(DulyError):
    """The database does not answer now."""


class StormDatabase(ABC):
    """What both kinds of database share."""

    now = ""
    bytes_type = ""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        names = ("jobs", "outbox", "events", "history", "workers")
        self._names = {name: settings.table(f"duly_{name}") for name in names}
        self._names |= {name: settings.table(name) for name in OWN_TABLES}
        self._names |= {"now": self.now, "bytes": self.bytes_type, "schema": SCHEMA}

    def fill_table_names(self, statement: str) -> str:
        """Return a statement with the names of the tables filled in."""
        return statement.format(**self._names)

    def read_progress(self) -> StormProgress:
        """Read what is finished, and make rescued jobs run now; may raise `Unreachable`."""
        return StormProgress(*map(int, self.fetch_progress_row()))

    def count_remaining(self) -> Remaining:
        """Count what is still to be done; slow while there is much."""
        [row] = self.query(LEFT)
        return Remaining(*map(int, row))

    @abstractmethod
    def fetch_progress_row(self) -> tuple[Any, ...]:
        """Return one row of ``LOOK``; rescued jobs are made to run now."""

    @abstractmethod
    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of one statement, on a connection of its own."""
