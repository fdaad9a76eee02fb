"""What a database says after a fault, against what senders were told: the invariants.

Each question opens a connection and closes it, so that whoever counts connections counts none of
the test's own.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import psycopg

from tests.support.processes import until
from tests.support.watching import nobody_else_is_connected

EFFECTS = "CREATE TABLE IF NOT EXISTS effects (name text)"
EVENTS = "SELECT event_id, body FROM duly_events"
JOBS = "SELECT e.event_id FROM duly_jobs AS j LEFT JOIN duly_events AS e ON e.id = j.event"
ARRIVALS = (
    "SELECT event_id FROM duly_events WHERE outcome = 'accepted' UNION ALL"
    " SELECT e.event_id FROM duly_deliveries AS d LEFT JOIN duly_events AS e ON e.id = d.event"
    " WHERE d.outcome = 'accepted'"
)
AT_WORK = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'duly'"
    " AND datname = current_database() AND state <> 'idle'"
)


class Books:
    """The tables of one database, read from beside the application."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_sqlite = url.startswith("sqlite:")

    def ask(self, text: str) -> list[Any]:
        """Run one statement in a transaction of its own and return its rows."""
        if not self.is_sqlite:
            with psycopg.connect(self.url, autocommit=True) as connection:
                cursor = connection.execute(text)
                return cursor.fetchall() if cursor.description else []
        file = sqlite3.connect(self.url.removeprefix("sqlite:///"), isolation_level=None)
        try:
            return file.execute(text).fetchall()
        finally:
            file.close()

    def names(self, text: str) -> Counter[str]:
        """How often each name is in the first column."""
        return Counter(row[0] for row in self.ask(text))

    def events(self) -> Counter[str]:
        """The event ids there are."""
        return self.names(EVENTS)

    def check(self, sent: Mapping[str, bytes], told: Iterable[str], *, inline: bool) -> None:
        """Compare with what was sent, and with what was answered 2xx."""
        bodies = {name: bytes(body) for name, body in self.ask(EVENTS)}
        missing = set(told) - set(bodies)
        assert not missing, f"acknowledged and not there: {missing}"
        assert bodies.items() <= sent.items(), "from nowhere, or not as it was sent"
        once = dict.fromkeys(bodies, 1)
        assert self.events() == once, "an event twice"
        assert self.names(ARRIVALS) == once, "an arrival that was accepted twice or by nobody"
        assert self.names(JOBS) == ({} if inline else once), "not one job for each event"
        assert self.names("SELECT name FROM effects") == (once if inline else {}), "not one effect"
        [(claims,)] = self.ask("SELECT count(*) FROM duly_claims WHERE state = 'done'")
        assert claims == len(bodies), "a claim without its event"

    def idle(self) -> None:
        """Nobody has a transaction open or holds a lock; a server takes a moment to see that."""
        until(self._idle)

    def _idle(self) -> bool | None:
        if not self.is_sqlite:
            return self.ask(AT_WORK) == [(0,)] or None
        file = sqlite3.connect(self.url.removeprefix("sqlite:///"), isolation_level=None, timeout=0)
        try:
            file.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            return None
        finally:
            file.close()
        return True

    def alone(self) -> None:
        """No connection is left, and the file is sound."""
        if self.is_sqlite:
            self.idle()
            assert self.ask("PRAGMA integrity_check") == [("ok",)]
        else:
            assert until(lambda: nobody_else_is_connected(self.url))
