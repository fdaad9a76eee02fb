"""What is in duly's tables and in the user's, to an outsider who looks now."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import duly
from tests.stores.join.places import Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# The user's own table; it forbids no double.
EFFECTS = "CREATE TABLE IF NOT EXISTS effects (source text, event text, handler text)"
WRITE = "INSERT INTO effects (source, event, handler) VALUES (:source, :event, :handler)"
TABLES = (
    "duly_claims",
    "duly_events",
    # Duplicates are noted apart, two seconds later: a slow machine sees them come.
    "duly_deliveries WHERE outcome <> 'duplicate'",
    "duly_jobs",
    "duly_versions",
    "effects",
)


class Remembered(NamedTuple):
    """One row of the events."""

    event_id: str
    type: str | None
    flags: str
    body: bytes | None
    fingerprint: bytes
    headers: dict[str, str]


class Records:
    """The tables of one database."""

    def __init__(self, url: str) -> None:
        self._place = Place(url)
        self._connection: Any = None  # Any: of either driver

    @contextmanager
    def looking(self) -> Iterator[Self]:
        """Look through one connection meanwhile: opening one takes longer than most tests."""
        with closing(self._place.connect()) as self._connection:
            yield self
        self._connection = None

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What is committed, to whoever asks now."""
        if self._connection is None:
            return self._place.rows(sql)
        return [tuple(row) for row in self._connection.execute(sql).fetchall()]

    def run(self, sql: str) -> None:
        """Change something at once."""
        self._place.run(sql)

    def events(self, source: str) -> list[Remembered]:
        """The events of a source, by the time of their arrival."""
        found = self.rows(
            "SELECT event_id, type, flags, body, fingerprint, headers FROM duly_events"
            f" WHERE source = '{source}' ORDER BY received_at, event_id, flags"
        )
        return [Remembered._make((*row[:-1], json.loads(row[-1]))) for row in found]

    def deliveries(self, source: str) -> Counter[tuple[str, str]]:
        """How often each event arrived, by what it was told."""
        return Counter(
            (event, outcome)
            for event, outcome in self.rows(
                f"SELECT event_id, outcome FROM duly_events WHERE source = '{source}'"
                " UNION ALL SELECT e.event_id, d.outcome FROM duly_deliveries AS d"
                f" JOIN duly_events AS e ON e.id = d.event AND source = '{source}'"
            )
        )

    def jobs(self, source: str) -> list[tuple[str, str]]:
        """The event and the handler of each job."""
        return [
            (event, name)
            for event, name in self.rows(
                "SELECT event.event_id, job.name FROM duly_jobs AS job"
                f" JOIN duly_events AS event ON event.id = job.event AND source = '{source}'"
                " ORDER BY 1, 2"
            )
        ]

    def effects(self, source: str) -> list[tuple[str, str]]:
        """The event and the handler of each effect."""
        return [
            (event, handler)
            for event, handler in self.rows(
                f"SELECT event, handler FROM effects WHERE source = '{source}' ORDER BY 1, 2"
            )
        ]

    def claims(self, scope: str) -> list[str]:
        """The keys that are claimed in a scope, as people read them."""
        found = self.rows(f"SELECT key_text FROM duly_claims WHERE scope = '{scope}' ORDER BY 1")
        return [key for (key,) in found]

    def counters(self, scope: str) -> dict[str, int]:
        """What was counted in a scope."""
        found = self.rows(
            f"SELECT name, sum(n) FROM duly_counters WHERE scope = '{scope}' GROUP BY name"
        )
        return {name: int(count) for name, count in found}

    def settle(self, source: str, state: str) -> None:
        """Have every job of a source in this state, as a worker would."""
        jobs = f"SELECT id FROM duly_events WHERE source = '{source}'"
        self.run(f"UPDATE duly_jobs SET state = '{state}' WHERE event IN ({jobs})")

    def finish(self, source: str) -> None:
        """Have every job of a source done, as a worker would."""
        events = f"SELECT id FROM duly_events WHERE source = '{source}'"
        self.run(f"DELETE FROM duly_jobs WHERE event IN ({events})")

    def everything(self) -> dict[str, int]:
        """How many rows each table has; counters are no record of a delivery."""
        counted = [f"SELECT '{table.split()[0]}', count(*) FROM {table}" for table in TABLES]
        return {table: count for table, count in self.rows(" UNION ALL ".join(counted))}


def settle_in(url: str) -> None:
    """Make duly's tables and the user's."""
    with duly.store(url) as store:
        store.migrate()
    Place(url).run(EFFECTS)


def settled_file(path: Path) -> bytes:
    """The bytes of a SQLite file with all tables: copying them is quicker than migrating."""
    url = f"sqlite:///{path}"
    settle_in(url)
    Place(url).run("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.read_bytes()
