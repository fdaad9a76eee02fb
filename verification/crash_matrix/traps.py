"""Names the statement boundaries of a process, and springs at one of them."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

from duly.stores.sql.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.prove.steps import Step

Side = Literal["before", "after"]
# Of a statement of the user's, or one that has no name, so much is a name.
NAMED_BY = 48
# A limit that was worked out, which is another one every time.
NUMBER = re.compile(r"(?<== )\d+")


class Boundary(NamedTuple):
    """One side of a statement, and how often the process came to it before.

    By name and not by number: what goes on at the same time is not always in the same order.
    """

    name: str
    number: int
    side: Side

    def __str__(self) -> str:
        return f"{self.side} {self.name}" + (f" #{self.number}" if self.number else "")


class Passed(NamedTuple):
    """A boundary that was come to, whether a transaction was open there, and on whose wire."""

    at: Boundary
    inside: bool
    driver: str


class Trap:
    """A watcher that does nothing until it is armed."""

    def __init__(self, at: Boundary | None, spring: Callable[[Step], None]) -> None:
        self.passed: list[Passed] = []
        self._at, self._spring = at, spring
        self._armed = False
        self._lock = threading.Lock()
        self._counted: Counter[tuple[str, Side]] = Counter()
        self._names: dict[str, str] = {}
        self._last: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._under: dict[int, str] = {}
        self._opened: WeakSet[Any] = WeakSet()
        self._learn_names()

    def connections(self) -> list[Any]:
        """Every connection that a statement was sent by, and that somebody still has."""
        return list(self._opened)

    def arm(self) -> None:
        """From here on."""
        self._armed = True

    def before(self, step: Step) -> None:
        """Come to the near side of a statement."""
        if self._armed:
            self._under[step.number] = self._named(step)
            self._come_to(step, "before")

    def after(self, step: Step) -> None:
        """Come to its far side."""
        if self._armed and step.number in self._under:
            self._come_to(step, "after")

    def _come_to(self, step: Step, side: Side) -> None:
        name = self._under[step.number] if side == "before" else self._under.pop(step.number)
        with self._lock:
            boundary = Boundary(name, self._counted[name, side], side)
            self._counted[name, side] += 1
            inside, driver = state_of(step.connection)
            self._opened.add(step.connection)
            if driver == "sqlite3":  # one write lock: whichever connection has it, the process does
                inside = any(state_of(each)[0] for each in list(self._opened))
            self.passed.append(Passed(boundary, inside, driver))
            springs = boundary == self._at
        if springs:
            self._spring(step)

    def _named(self, step: Step) -> str:
        """What a statement is called; the ends of transactions are told by what was in them."""
        name = self._names.get(step.text)
        if name is None:
            name = NUMBER.sub("n", " ".join(step.text.split()))[:NAMED_BY]
            if name in ("COMMIT", "ROLLBACK"):
                return f"{name} of {self._last.get(step.connection, 'nothing')}"
        if not name.startswith(("BEGIN", "SAVEPOINT", "RELEASE", "ROLLBACK")):
            self._last[step.connection] = name
        return name

    def _learn_names(self) -> None:
        names, found, cut = self._names, Statements.__getitem__, Statements.without_rows

        def noted(self: Statements, name: str) -> Any:
            prepared = found(self, name)
            names[prepared.text.strip()] = name
            return prepared

        def noted_without_rows(self: Statements, name: str) -> str:
            text = cut(self, name)
            names[text.strip()] = name
            return text

        # This process dies soon. A text may have been cut before it was forked.
        Statements.__getitem__ = noted  # type: ignore[method-assign]
        Statements.without_rows = noted_without_rows  # type: ignore[method-assign]


class Doom:
    """A watcher that kills the process at one of its statements, whatever it is called."""

    def __init__(self, number: int) -> None:
        self._number = number

    def before(self, step: Step) -> None:
        """Come to a statement."""

    def after(self, step: Step) -> None:
        """A statement has been carried out."""
        if step.number == self._number:
            os.kill(os.getpid(), signal.SIGKILL)


def state_of(connection: Any) -> tuple[bool, str]:
    """Whether the connection has a transaction open, and whose it is."""
    if hasattr(connection, "pgconn"):
        return bool(connection.pgconn.transaction_status), "psycopg"
    if hasattr(connection, "is_in_transaction"):
        return bool(connection.is_in_transaction()), "asyncpg"
    try:
        return bool(connection.in_transaction), "sqlite3"
    except sqlite3.ProgrammingError:  # it was closed, and nobody has let go of it yet
        return False, "sqlite3"
