"""What the database saw of every lease: triggers note each one, and whatever may never happen.

Read from beside the workers, on a connection of the test's own.
"""

from collections import Counter
from typing import Any, NamedTuple

from tests.support.processes.effects import Side

# What an UPDATE of a job may never do, and a DELETE neither: see the table of states.
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
TABLES = (
    "CREATE TABLE effects (name text, worker text)",
    "CREATE TABLE given (job text, epoch bigint, token {bytes})",
    "CREATE TABLE breaches (job text, was text, became text)",
)
SQLITE = (
    "CREATE TRIGGER gives AFTER UPDATE ON duly_jobs WHEN new.state = 'leased' BEGIN"
    " INSERT INTO given VALUES (new.id, new.epoch, new.token); END",
    f"CREATE TRIGGER breaks AFTER UPDATE ON duly_jobs WHEN {NEVER} BEGIN"
    " INSERT INTO breaches VALUES (new.id, old.state, new.state); END",
    "CREATE TRIGGER drops AFTER DELETE ON duly_jobs WHEN old.state <> 'leased' BEGIN"
    " INSERT INTO breaches VALUES (old.id, old.state, 'gone'); END",
)
POSTGRES = (
    "CREATE FUNCTION give() RETURNS trigger LANGUAGE plpgsql AS"
    " 'BEGIN INSERT INTO given VALUES (new.id, new.epoch, new.token); RETURN NULL; END'",
    "CREATE FUNCTION breach() RETURNS trigger LANGUAGE plpgsql AS"
    " 'BEGIN INSERT INTO breaches VALUES (old.id, old.state, new.state); RETURN NULL; END'",
    "CREATE TRIGGER gives AFTER UPDATE ON duly_jobs FOR EACH ROW"
    " WHEN (new.state = 'leased') EXECUTE FUNCTION give()",
    f"CREATE TRIGGER breaks AFTER UPDATE ON duly_jobs FOR EACH ROW"
    f" WHEN ({NEVER}) EXECUTE FUNCTION breach()",
    "CREATE TRIGGER drops AFTER DELETE ON duly_jobs FOR EACH ROW"
    " WHEN (old.state <> 'leased') EXECUTE FUNCTION breach()",
)
# Nobody has minutes here to wait for a job that comes back for the fourth time, or seconds for the
# lease of a process that is known to be dead.
HURRY = (
    "UPDATE duly_jobs SET run_at = {now} WHERE state = 'ready' AND rescues > 0 AND run_at > {now}"
)
BURY = "UPDATE duly_workers SET lease = 0 WHERE pid = {pid}"
NOW = {
    True: "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)",
    False: "clock_timestamp()",
}


class End(NamedTuple):
    """How one job ended, as the database says."""

    id: str
    name: str
    ends: str
    attempts: int
    rescues: int | None


class Ledger:
    """The database, and what its triggers wrote."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._side = Side(url)
        self.is_sqlite = self._side.is_sqlite

    def reopen(self) -> None:
        """Connect again, to a server that was away."""
        self._side.close()
        self._side = Side(self.url)

    def prepare(self) -> None:
        """Add the tables and triggers to duly's own."""
        for text in TABLES:
            self.ask(text.format(bytes="blob" if self.is_sqlite else "bytea"))
        for text in SQLITE if self.is_sqlite else POSTGRES:
            self.ask(text)

    def ask(self, text: str) -> list[Any]:
        """Run one statement in a transaction of its own and return its rows."""
        cursor = self._side.connection.execute(text)
        return cursor.fetchall() if cursor.description else []

    def left(self) -> int:
        """How many jobs are neither done nor dead."""
        [(count,)] = self.ask("SELECT count(*) FROM duly_jobs WHERE state <> 'dead'")
        return int(count)

    def hurry(self) -> None:
        """Let jobs that come back after a rescue come back now."""
        self.ask(HURRY.format(now=NOW[self.is_sqlite]))

    def bury(self, pid: int) -> None:
        """Wait no longer for a sign of life from a worker that has none."""
        self.ask(BURY.format(pid=pid))

    def ends(self) -> list[End]:
        """Every end there is; a job that is there twice ended twice."""
        done = self.ask("SELECT job, name, outcome, attempts FROM duly_history")
        others = self.ask("SELECT id, name, state, attempts, rescues FROM duly_jobs")
        rows = [(*row, None) for row in done] + others
        return [End(str(job), name, ends, tries, back) for job, name, ends, tries, back in rows]

    def effects(self) -> Counter[str]:
        """How often each job took effect."""
        return Counter(name for (name,) in self.ask("SELECT name FROM effects"))

    def given(self) -> list[tuple[str, int, bytes]]:
        """Every lease that was ever given: job, epoch, token."""
        rows = self.ask("SELECT job, epoch, token FROM given")
        return [(job, epoch, bytes(token)) for job, epoch, token in rows]

    def breaches(self) -> list[Any]:
        """What may never happen, and did."""
        return self.ask("SELECT * FROM breaches")

    def close(self) -> None:
        self._side.close()
