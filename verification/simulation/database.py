"""The one database of a schedule: SQLite in memory, one write lock, and a journal of its own.

Triggers write down every move of a job, a message and a claim, in the transaction that makes it,
so that the journal holds exactly what was committed.
"""

from __future__ import annotations

import random
import sqlite3
from typing import TYPE_CHECKING

from duly.core.defaults import names
from duly.core.onestep import finish
from duly.stores.sql.migrations import apply_next
from duly.stores.sql.statements import TABLES, cut_returning, statements
from duly.stores.sqlite.adapters import Sqlite3Adapter
from duly.stores.sqlite.session import SqliteSession

if TYPE_CHECKING:
    from verification.simulation.processes import Process
    from verification.simulation.world import World

# More than there are statements: none is to be prepared twice.
PREPARED = 1000
# No table here has a unique constraint: what is done twice is to be seen twice.
OURS = """
CREATE TABLE effects (event TEXT, handler TEXT, job TEXT, epoch INTEGER, amount INTEGER);
CREATE TABLE counter (n INTEGER);
CREATE TABLE applied (object TEXT, version INTEGER, event TEXT);
CREATE TABLE moves (
    what TEXT, id TEXT, before TEXT, after TEXT, epoch INTEGER, token BLOB, attempts INTEGER,
    rescues INTEGER, most INTEGER
);
CREATE TABLE accepted (id TEXT, scope TEXT, event TEXT, flags TEXT, at INTEGER, fingerprint BLOB);
CREATE TABLE staged (id TEXT, body BLOB);
CREATE TABLE enqueued (id TEXT, name TEXT, event TEXT, payload BLOB);
"""
COLUMNS = "what, id, before, after, epoch, token, attempts, rescues, most"
OWN_TABLES = ("effects", "counter", "applied", "moves", "accepted", "staged", "enqueued")


def leased_triggers(what: str, table: str) -> list[str]:
    """Triggers for a table of what can be leased."""
    after = "NEW.state, NEW.epoch, NEW.token, NEW.attempts, NEW.rescues, NEW.max_attempts"
    before = "OLD.epoch, OLD.token, OLD.attempts, OLD.rescues, OLD.max_attempts"
    insert = f"INSERT INTO moves ({COLUMNS}) VALUES"  # names of our own
    return [
        f"""CREATE TRIGGER {what}_made AFTER INSERT ON {table} BEGIN
            {insert} ('{what}', NEW.id, NULL, {after}); END""",
        f"""CREATE TRIGGER {what}_moved AFTER UPDATE ON {table} BEGIN
            {insert} ('{what}', NEW.id, OLD.state, {after}); END""",
        f"""CREATE TRIGGER {what}_left AFTER DELETE ON {table} BEGIN
            {insert} ('{what}', OLD.id, OLD.state, NULL, {before}); END""",
    ]


TRIGGERS = [
    *leased_triggers("job", "duly_jobs"),
    *leased_triggers("message", "duly_outbox"),
    # Of a claim, when it was made and when it ends stand where its counters would.
    f"""CREATE TRIGGER claim_made AFTER INSERT ON duly_claims BEGIN
        INSERT INTO moves ({COLUMNS}) VALUES ('claim', hex(NEW.digest), NULL, NEW.state, NEW.epoch,
            NEW.token, NEW.first_seen, 0, NEW.expires_at); END""",
    f"""CREATE TRIGGER claim_moved AFTER UPDATE ON duly_claims BEGIN
        INSERT INTO moves ({COLUMNS}) VALUES ('claim', hex(NEW.digest), OLD.state, NEW.state,
            NEW.epoch, NEW.token, NEW.first_seen, 0, NEW.expires_at); END""",
    f"""CREATE TRIGGER claim_left AFTER DELETE ON duly_claims BEGIN
        INSERT INTO moves ({COLUMNS}) VALUES ('claim', hex(OLD.digest), OLD.state, NULL, OLD.epoch,
            OLD.token, 0, 0, 0); END""",
    f"""CREATE TRIGGER history_made AFTER INSERT ON duly_history BEGIN
        INSERT INTO moves ({COLUMNS}) VALUES ('history', NEW.job, NULL, NEW.outcome, 0, NULL,
            NEW.attempts, 0, 0); END""",
    f"""CREATE TRIGGER event_noted AFTER INSERT ON duly_events BEGIN
        INSERT INTO moves ({COLUMNS}) VALUES ('event', NEW.id, NULL, NEW.flags, 0, NULL, 0, 0, 0);
        END""",
    """CREATE TRIGGER event_made AFTER INSERT ON duly_events BEGIN
        INSERT INTO accepted VALUES (NEW.id, NEW.scope, NEW.event_id, NEW.flags, NEW.received_at,
            NEW.fingerprint); END""",
    """CREATE TRIGGER message_staged AFTER INSERT ON duly_outbox BEGIN
        INSERT INTO staged VALUES (NEW.id, NEW.body); END""",
    """CREATE TRIGGER job_enqueued AFTER INSERT ON duly_jobs BEGIN
        INSERT INTO enqueued VALUES (NEW.id, NEW.name, NEW.event, NEW.payload); END""",
]


class Transaction:
    """One open transaction, which has the write lock."""

    __slots__ = ("doomed", "open", "process")

    def __init__(self, process: Process) -> None:
        self.process = process
        self.open = True
        # Why it must not be committed: a statement in it spoke for a lease that was lost.
        self.doomed: str | None = None


class Database:
    """A connection that serves one schedule after the other, each from empty tables."""

    def __init__(self) -> None:
        self.connection = sqlite3.connect(
            ":memory:", isolation_level=None, cached_statements=PREPARED
        )
        self.statements = statements("sqlite", names(prefix="duly_", schema=None), "named")
        self._names: dict[str, str] = {}
        self._migrate()
        # Registered once: another function would have SQLite prepare every statement anew.
        self._noise = random.Random()  # that of the schedule, once one plays
        self.connection.create_function("random", 0, self._random)
        self.connection.create_function("randomblob", 1, self._random_bytes)
        self.holder: Transaction | None = None

    def _migrate(self) -> None:
        session = SqliteSession(Sqlite3Adapter(self.connection), self.statements, None)
        self.connection.execute("BEGIN IMMEDIATE")
        while finish(apply_next(session)) is not None:
            pass
        self.connection.execute("COMMIT")
        self.connection.executescript(OURS)
        for trigger in TRIGGERS:
            self.connection.execute(trigger)

    def _random(self) -> int:
        return self._noise.getrandbits(64) - 2**63

    def _random_bytes(self, size: int) -> bytes:
        return self._noise.randbytes(size)

    def name_of(self, text: str) -> str:
        """The name of one of duly's statements."""
        name = self._names.get(text)
        if name is None:
            # Those that were prepared since the last look.
            for known, one in self.statements._prepared.items():
                self._names[one.text] = self._names[cut_returning(one.text)] = known
            name = self._names.setdefault(text, text.partition(" ")[0])
        return name

    def begin_anew(self, world: World) -> None:
        """Empty every table, and draw from the dice of a schedule."""
        self._noise = world.noise
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
        self.holder = None
        duly = [f"duly_{table}" for table in TABLES if table != "meta"]
        for table in (*duly, *OWN_TABLES):
            self.connection.execute(f"DELETE FROM {table}")  # names of our own
        self.connection.execute("INSERT INTO counter VALUES (0)")

    def begin(self, process: Process) -> Transaction:
        """Take the write lock."""
        self.connection.execute("BEGIN IMMEDIATE")
        self.holder = Transaction(process)
        return self.holder

    def commit(self, transaction: Transaction) -> None:
        """Make it last."""
        self.connection.execute("COMMIT")
        self._end(transaction)

    def roll_back(self, transaction: Transaction) -> None:
        """Undo it, unless it is over."""
        if transaction.open:
            if self.connection.in_transaction:  # some errors have rolled back everything already
                self.connection.execute("ROLLBACK")
            self._end(transaction)

    def _end(self, transaction: Transaction) -> None:
        transaction.open = False
        self.holder = None

    def forget(self, process: Process) -> None:
        """Roll back the transaction of a process."""
        if self.holder is not None and self.holder.process is process:
            self.roll_back(self.holder)

    def rows(self, text: str, **values: object) -> list[tuple[object, ...]]:
        """What a look at the tables finds; for the checks of the simulation."""
        return self.connection.execute(text, values).fetchall()
