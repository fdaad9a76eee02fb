"""What is in the tables of jobs and in the user's, to an outsider who looks now."""

from __future__ import annotations

import json
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import duly
from tests.stores.join.places import Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# The user's own table; it forbids no double.
WORKINGS = "CREATE TABLE IF NOT EXISTS workings (job text, note text)"
WRITE = "INSERT INTO workings (job, note) VALUES (:job, :note)"
TABLES = (
    "duly_claims", "duly_effects", "duly_events", "duly_deliveries", "duly_history", "duly_jobs",
    "duly_workers", "workings",
)  # fmt: skip

# Somebody else's worker, which lives for as long as any test.
THIEF = "00000000-0000-7000-8000-000000000001"
FAR = 2**62


class Row(NamedTuple):
    """One row of the jobs, as a test looks at it."""

    state: str
    attempts: int
    rescues: int
    epoch: int
    token: bytes | None
    worker: str | None
    error: dict[str, Any] | None


class Records:
    """The tables of one database."""

    def __init__(self, url: str) -> None:
        self.place = Place(url)
        self._connection: Any = None  # Any: of either driver

    @contextmanager
    def looking(self) -> Iterator[Self]:
        """Look through one connection meanwhile: opening one takes longer than most tests."""
        with closing(self.place.connect()) as self._connection:
            if self.place.is_sqlite:
                self._connection.execute("PRAGMA busy_timeout = 10000")
            yield self
        self._connection = None

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What is committed, to whoever asks now."""
        if self._connection is None:
            return self.place.rows(sql)
        return [tuple(row) for row in self._connection.execute(sql).fetchall()]

    def run(self, sql: str) -> None:
        """Change something at once."""
        if self._connection is None:
            self.place.run(sql)
        else:
            self._connection.execute(sql)

    def job(self, id: str) -> Row | None:
        """A job; None where it has left the table."""
        found = self.rows(
            "SELECT state, attempts, rescues, epoch, token, worker, last_error FROM duly_jobs"
            f" WHERE id = '{id}'"
        )
        if not found:
            return None
        state, attempts, rescues, epoch, token, worker, error = found[0]
        kept = None if error is None else json.loads(bytes(error))
        return Row(state, attempts, rescues, epoch, token, worker, kept)

    def present(self, id: str) -> Row:
        """A job that has not left the table."""
        row = self.job(id)
        assert row is not None
        return row

    def counted(self, id: str) -> tuple[str, int, int]:
        """The state of a job and its two counters."""
        return self.present(id)[:3]

    def states(self) -> list[str]:
        """The states of all jobs."""
        return [state for (state,) in self.rows("SELECT state FROM duly_jobs ORDER BY id")]

    def history(self, id: str) -> list[tuple[str, str, int]]:
        """What is remembered of a job: its name, outcome and attempts."""
        return [
            (name, outcome, attempts)
            for name, outcome, attempts in self.rows(
                f"SELECT name, outcome, attempts FROM duly_history WHERE job = '{id}'"
            )
        ]

    def notes(self, id: str | None = None) -> list[str]:
        """What handlers wrote for a job, or for all."""
        which = "" if id is None else f" WHERE job = '{id}'"
        return [note for (note,) in self.rows(f"SELECT note FROM workings{which} ORDER BY 1")]

    def everything(self, *tables: str) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of these tables, of all but the workers' unless named."""
        wanted = tables or tuple(table for table in TABLES if table != "duly_workers")
        return {table: self.rows(f"SELECT * FROM {table} ORDER BY 1, 2") for table in wanted}

    def steal(self, id: str, *parts: str) -> None:
        """Somebody newer takes the lease; ``parts`` are what differs from the one before.

        From any thread: through a connection of its own.
        """
        plain = self.place.is_sqlite
        newer = {
            "epoch": "epoch + 1",
            "token": "zeroblob(16)" if plain else "decode(repeat('aa', 16), 'hex')",
            "worker": f"'{THIEF}'",
        }
        changes = ", ".join(f"{part} = {newer[part]}" for part in parts or newer)
        seen, no = (FAR, 0) if plain else ("'2100-01-01'", "false")
        with closing(self.place.connect()) as connection:
            connection.execute(
                "INSERT INTO duly_workers (id, host, pid, seen_at, queues, idle)"
                f" VALUES ('{THIEF}', 'elsewhere', 1, {seen}, '[]', {no}) ON CONFLICT DO NOTHING"
            )
            connection.execute(
                f"UPDATE duly_jobs SET {changes} WHERE id = '{id}' AND state = 'leased'"
            )

    def finish_elsewhere(self, id: str) -> None:
        """Somebody newer has done the job, and it has left the table. From any thread."""
        self.place.run(f"DELETE FROM duly_jobs WHERE id = '{id}'")

    def clear(self) -> None:
        """Leave nothing for the next test."""
        emptied = ";".join(f"DELETE FROM {table}" for table in TABLES)
        if self.place.is_sqlite:
            self._connection.executescript(f"BEGIN; {emptied}; COMMIT")
        else:
            self.run(emptied)


def settle_in(url: str) -> None:
    """Make duly's tables and the user's."""
    with duly.store(url) as store:
        store.migrate()
    Place(url).run(WORKINGS)


def settled_file(path: Path) -> bytes:
    """The bytes of a SQLite file with all tables: copying them is quicker than migrating."""
    url = f"sqlite:///{path}"
    settle_in(url)
    Place(url).run("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.read_bytes()
