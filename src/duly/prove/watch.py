"""Watch one run: record its steps, and kill or stop the process at a given one."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

from duly.prove.steps.unfinished import has_rows
from duly.prove.trace import CLAIMS, FRAMES, TAKEN, Mark, MarkLog, Place, StatementNames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly.prove.recording import Refusals
    from duly.prove.steps import Step
    from duly.prove.trace import Kind, Phase

TrapAction = Literal["kill", "stop"]
Side = Literal["before", "after"]
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
# Seconds; far longer than the system needs to stop a process.
STOPPING = 0.05
# More than any process repeats one step.
APART = 1_000_000
ATTACHES = re.compile(r"\bATTACH\b", re.IGNORECASE)
# What psycopg calls ACTIVE, INTRANS and INERROR: in the midst of a statement, as of a COPY, nothing
# is over yet.
IN_TRANSACTION = (1, 2, 3)


class Trap(NamedTuple):
    """Where a process is killed, or stopped until it is resumed."""

    manner: TrapAction
    place: Place
    side: Side


class Transaction:
    """An open transaction."""

    def __init__(self, number: int) -> None:
        self.number = number
        # Whether a step in it was recorded: then its end is, too.
        self.counts = False


class Watch:
    """A watcher of statements and of calls, for one process."""

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals
        self._wording: StatementNames | None = None
        self._lock = threading.RLock()
        self._notes: MarkLog | None = None
        self._trap: Trap | None = None
        self._seen: Counter[str] = Counter()
        self._open: WeakKeyDictionary[Any, Transaction] = WeakKeyDictionary()
        self._number = 0
        self._inspector: Callable[[Any], None] | None = None
        self._known: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
        # The process of the handler; one that it forks has steps of its own, with other numbers.
        self._process = 0
        self._forks = 0
        self._first = 0
        self.phase: Phase = "start"
        self.claimed = False

    def begin(
        self,
        wording: StatementNames,
        notes: MarkLog,
        trap: Trap | None,
        inspector: Callable[[Any], None] | None = None,
    ) -> None:
        """Start recording; ``inspector`` sees each connection before its first use."""
        self._wording, self._notes, self._trap, self._inspector = wording, notes, trap, inspector
        self._process = os.getpid()
        os.register_at_fork(before=self._before_fork, after_in_child=self._after_fork)

    def _before_fork(self) -> None:
        self._forks += 1

    def _after_fork(self) -> None:
        self._first += self._forks * APART
        self._number += self._forks * APART  # nor is it in a transaction of its parent's

    @property
    def _has_begun(self) -> bool:
        """Whether the delivery has begun; the steps of import and opening are not recorded."""
        return self.phase != "start"

    # Statements

    def before(self, step: Step) -> None:
        """A statement is about to be sent."""
        if self._wording is None:
            return
        with self._lock:
            connection = step.connection
            if connection not in self._known:
                self._inspect(connection)
            if not in_transaction(connection):
                self._open.pop(connection, None)  # it was ended in a way that was not watched
            if self._has_begun and self._counts(step):
                self._spring_trap(step.text, "before")

    def after(self, step: Step) -> None:
        """The database has answered."""
        if self._wording is None:
            return
        with self._lock:
            transaction = self._transaction(step.connection)
            counts = self._counts(step)
            if ATTACHES.search(step.text):
                self._inspect(step.connection)
            if transaction is not None:
                transaction.counts |= counts
            if not in_transaction(step.connection):
                self._open.pop(step.connection, None)
            if counts and self._has_begun:
                number = None if transaction is None else transaction.number
                self._note("sql", step.text, self._wording.ours(step.text), number)

    def _inspect(self, connection: Any) -> None:
        """Inspect a connection; one that is refused is inspected, and refused, again next time."""
        self._known.pop(connection, None)
        if self._inspector is not None:
            with self._refusals.record_refusals():
                self._inspector(connection)
        self._known[connection] = True

    def _counts(self, step: Step) -> bool:
        """Whether to record a step; BEGIN and COMMIT count where the transaction's contents do."""
        if FRAMES.match(step.text) is None:
            return self._wording is not None and self._wording.counts(step.text)
        transaction = self._open.get(step.connection)
        return transaction is not None and transaction.counts

    def _transaction(self, connection: Any) -> Transaction | None:
        """The transaction that a statement was in, begun by it or before."""
        found = self._open.get(connection)
        if found is None and in_transaction(connection):
            self._number += 1
            found = self._open[connection] = Transaction(self._number)
        return found

    # Calls

    @contextmanager
    def call(self, text: str) -> Iterator[None]:
        """Record a call to the outside around it."""
        if not self._has_begun:
            yield
            return
        with self._lock:
            self._spring_trap(text, "before")
        yield
        with self._lock:
            self._note("call", text, None, None)

    # Jobs

    def record_job_start(self, name: str) -> None:
        """Record that a worker is about to run a job."""
        if self._wording is not None:
            with self._lock:
                self._note("job", f"job {name}", TAKEN, None)

    # All of them

    def _note(self, kind: Kind, text: str, ours: str | None, transaction: int | None) -> None:
        alone = not any(in_transaction(one) for one in list(self._open))
        alone = alone and not any(has_unfetched_rows(one) for one in list(self._known))
        nth = self._place(text).nth
        mark = Mark(kind, text, nth, ours, transaction, self.phase, self.claimed, alone)
        if self._notes is not None:
            self._notes.add(mark)
        self.claimed |= ours in CLAIMS
        self._spring_trap(text, "after")
        self._seen[text] += 1

    def _place(self, text: str) -> Place:
        return Place(text, self._first + self._seen[text])

    def _spring_trap(self, text: str, side: Side) -> None:
        trap = self._trap
        if trap is not None and (trap.place, trap.side) == (self._place(text), side):
            self._trap = None
            if self._process != os.getpid():  # a child that the handler has forked
                os.kill(self._process, SIGNALS[trap.manner])
            os.kill(os.getpid(), SIGNALS[trap.manner])
            time.sleep(STOPPING)  # a stop may reach the other threads first


def in_transaction(connection: Any) -> bool:
    """Whether a transaction is open on a connection of any driver."""
    if hasattr(connection, "in_transaction"):  # sqlite3
        return is_open(connection) and bool(connection.in_transaction)
    if hasattr(connection, "pgconn"):  # psycopg
        return connection.pgconn.transaction_status in IN_TRANSACTION
    return bool(connection.is_in_transaction())  # asyncpg


def has_unfetched_rows(connection: Any) -> bool:
    """Whether a statement holds a lock of SQLite's because its rows have not been fetched."""
    return hasattr(connection, "unfinished") and has_rows(connection)


def is_open(connection: Any) -> bool:
    """Whether a SQLite connection is open: a closed one answers with an error."""
    try:
        connection.in_transaction  # noqa: B018
    except Exception:  # drivers raise different ones
        return False
    return True
