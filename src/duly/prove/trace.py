"""The steps of a run, each recorded before the process can die.

Only what matters is kept: the user's statements and calls, the ends of the transactions they were
in, and those statements of duly's that decide about an event: its claim, its jobs, their leases.
"""

from __future__ import annotations

import json
import os
import re
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from duly.prove.statements import verb_of
from duly.stores.sql.placeholders import Style
from duly.stores.sql.statements import TABLES, cut_returning, statements

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from duly.core.defaults import Names
    from duly.core.session import Dialect

Kind = Literal["sql", "call", "job"]
Phase = Literal["start", "receive", "work", "relay"]
# The statements that claim an event.
CLAIMS = frozenset({"claims_insert", "claims_insert_many", "inbox_accept"})
# The step at which a worker has a job whose handler has not begun.
TAKEN = "taken"
# The statements that decide about an event and its jobs. The rest is bookkeeping, in another order
# and number each time.
DECIDING = (
    CLAIMS
    | {"events_insert", "jobs_insert", "jobs_insert_many", "outbox_insert", "versions_advance"}
    | {"jobs_done", "jobs_done_many", "jobs_remove", "jobs_remove_many"}
    | {"effects_intend", "effects_write", "claims_mark", "claims_result"}
)
# What drivers ask a server for themselves, and settings of a connection.
OF_THE_DRIVER = re.compile(
    r"\s*(PRAGMA|SHOW|SET|RESET|LISTEN|UNLISTEN|DISCARD|DEALLOCATE)\b"
    r"|.*\b(pg_catalog|pg_type|pg_notify|sqlite_compileoption_used|sqlite_version)\b",
    re.IGNORECASE | re.DOTALL,
)
# The frame of a transaction, and nothing beside it: other statements may follow in one text.
ENDS = re.compile(r"\s*(COMMIT|END|ROLLBACK)\b(?![^;]*\bTO\b)[^;]*;?\s*\Z", re.IGNORECASE)
FRAMES = re.compile(
    r"\s*(BEGIN|START\s+TRANSACTION|SAVEPOINT|RELEASE|ROLLBACK|COMMIT|END)\b[^;]*;?\s*\Z",
    re.IGNORECASE,
)


class Mark(NamedTuple):
    """One step of a run."""

    kind: Kind
    text: str
    # How often the same step came before it in this process: together they name it, because other
    # threads may come in between.
    nth: int
    # What duly calls the statement; None where it is the user's.
    ours: str | None
    # Which transaction it was in, counted from the first; None where it was committed by itself.
    transaction: int | None
    phase: Phase
    # Whether an event had been claimed before it in this process.
    claimed: bool
    # Whether no transaction of the process was open after it.
    alone: bool

    @property
    def place(self) -> Place:
        """The name of the step in every run."""
        return Place(self.text, self.nth)

    @property
    def frames(self) -> bool:
        """Whether it begins or ends a transaction."""
        return self.kind == "sql" and FRAMES.match(self.text) is not None

    @property
    def ends(self) -> bool:
        """Whether it ends a transaction."""
        return self.kind == "sql" and ENDS.match(self.text) is not None

    @property
    def theirs(self) -> bool:
        """Whether the user's code asked for it: a call, or a statement of its own."""
        return self.ours is None and not self.frames


class Place(NamedTuple):
    """The name of a step: its text, and how often the same came before."""

    text: str
    nth: int


class MarkLog:
    """The file of one process's marks, each in one write."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, mark: Mark) -> None:
        """Append a mark."""
        os.write(self._file, json.dumps(mark).encode() + b"\n")


def read_marks(path: Path) -> list[Mark]:
    """The marks of a process, as far as it came."""
    if not path.exists():
        return []
    return [Mark(*json.loads(line)) for line in path.read_text().splitlines()]


class StatementNames:
    """Tells duly's statements from others, for one set of table names."""

    def __init__(self, names: Names) -> None:
        self._names = names
        words = "|".join(re.escape(names.prefix + table) for table in TABLES)
        self._tables = re.compile(rf"\b({words})\b")

    def ours(self, text: str) -> str | None:
        """The name of a statement of duly's; None for the user's."""
        known = names_by_statement(self._names).get(text)
        return "other" if known is None and self._tables.search(text) else known

    def counts(self, text: str) -> bool:
        """Whether to record a statement."""
        ours = self.ours(text)
        if ours is not None:
            return ours in DECIDING
        return verb_of(text) != "" or OF_THE_DRIVER.match(text) is None


@lru_cache(maxsize=4)
def names_by_statement(names: Names) -> dict[str, str]:
    """Every statement of duly's as it is sent, in all spellings, and its name."""
    found: dict[str, str] = {}
    dialects: Iterable[Dialect] = ("sqlite", "postgres")
    for dialect in dialects:
        if dialect == "sqlite" and names.schema is not None:
            continue
        folder = files("duly.stores") / dialect / "statements"
        for file in folder.iterdir():
            name = file.name.removesuffix(".sql")
            if name.startswith("_") or not file.name.endswith(".sql"):
                continue
            for style in get_args(Style):
                text = statements(dialect, names, style)[name].text.strip()
                found[text] = found[cut_returning(text)] = name
    return found
