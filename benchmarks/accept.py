"""Processor time of one batch of new events, on PostgreSQL: the server's and Python's.

The statement of schema version 6 is recorded in `tests.support.schema_6`; it runs beside this
release's, which runs with each way to store a body. They take turns, each on a database of its own
and with events of its own. Linux only: the server's time is what the kernel counts for its process.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from tests.support import schema_6
from tests.support.inboxes import arrival
from tests.support.servers import database, postgres

import duly
from benchmarks.ingesting.deliveries import TYPE, body_around
from benchmarks.report import say
from duly.core.defaults import Names
from duly.core.ids import new_id
from duly.core.onestep import finish
from duly.inbox.accept import batch_values
from duly.inbox.statements import INBOX_ACCEPT
from duly.stores.postgres.deadlines import DeadlineConnection
from duly.stores.postgres.psycopg_adapters import PsycopgAdapter
from duly.stores.sql.statements import statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.inbox.new_event import NewEvent

# Batches, and the size of each body.
BATCHES = ((1, 2048), (8, 2048), (32, 2048), (128, 2048), (32, 20480))
# The first batches of a connection are planned anew.
WARM = 12
HEADERS = json.dumps(
    {
        "content-type": "application/json; charset=utf-8",
        "user-agent": "Sender/1.0 (+https://sender.example/webhooks)",
        "webhook-id": "msg_0123456789abcdef",
        "webhook-timestamp": "1767225600",
    }
).encode()
BODY = "ALTER TABLE duly_events ALTER COLUMN body SET "
CONTENDERS = {
    "before": "COMPRESSION pglz",
    "pglz": "COMPRESSION pglz",
    "external": "STORAGE EXTERNAL",
    "lz4": "COMPRESSION lz4",
}


def events(count: int, size: int) -> list[NewEvent]:
    """New events, each with a job and a body of so many bytes, half of it random digits."""
    before, after = body_around("usual", TYPE)
    made = []
    for _ in range(count):
        name = new_id()
        body = before + name.encode() + after
        while len(body) < size:
            body += os.urandom(len(before) // 2).hex().encode() + before
        made.append(
            arrival(
                "shop", name, body=body[:size], headers=HEADERS, remote="203.0.113.7", event_time=1
            )
        )
    return sorted(made, key=lambda event: event.digest)


class Contender:
    """A connection that receives batches in one way."""

    def __init__(self, name: str, url: str) -> None:
        store = duly.store(url, durability="any")
        store.migrate()
        store.close()
        self.name = name
        self.connection = DeadlineConnection.connect(url, autocommit=True)
        self.connection.execute(f"{BODY}{CONTENDERS[name]}".encode())
        self._receive = self._before if name == "before" else self._this
        self._adapter = PsycopgAdapter(self.connection)
        self._statement = statements("postgres", Names(), "pyformat")[INBOX_ACCEPT]
        self._recorded = schema_6.Connection.statement("postgres", INBOX_ACCEPT)

    def _this(self, batch: Sequence[NewEvent]) -> int:
        values: dict[str, Any] = {**batch_values(batch), "now": None, "wait": schema_6.WAIT}
        [row] = finish(self._adapter.fetch(self._statement, values))
        return len(row["digests"]) // 32

    def _before(self, batch: Sequence[NewEvent]) -> int:
        values = {**schema_6.batch_values(batch), "now": None, "wait": schema_6.WAIT}
        return len(finish(self._adapter.fetch(self._recorded, values)))

    def receive(self, batch: Sequence[NewEvent]) -> tuple[float, float]:
        """Receive a batch; return microseconds an event: the server's, Python's."""
        server, python = self._server_time(), time.thread_time_ns()
        wrote = self._receive(batch)
        spent = time.thread_time_ns() - python, self._server_time() - server
        if wrote != len(batch):
            raise SystemExit(f"{self.name} wrote {wrote} of {len(batch)} events")
        return spent[1] / len(batch) / 1000, spent[0] / len(batch) / 1000

    def _server_time(self) -> int:
        spent = Path(f"/proc/{self.connection.info.backend_pid}/schedstat").read_text()
        return int(spent.split()[0])


def contest(contenders: Sequence[Contender], count: int, size: int, rounds: int) -> dict[str, Any]:
    """Let them take turns; return the medians of each."""
    found: dict[str, list[tuple[float, float]]] = {one.name: [] for one in contenders}
    for number in range(WARM + rounds):
        for one in contenders:
            spent = one.receive(events(count, size))
            if number >= WARM:
                found[one.name].append(spent)
    return {
        name: {
            "server": round(median(server for server, _ in spent), 1),
            "python": round(median(python for _, python in spent), 1),
        }
        for name, spent in found.items()
    }


def main() -> None:
    """Run every batch and print the table, and the same as JSON in the last line."""
    parser = argparse.ArgumentParser("python -m benchmarks.accept", description=__doc__)
    parser.add_argument("--rounds", type=int, default=60, help="of each batch (60)")
    rounds = parser.parse_args().rounds
    report: dict[str, Any] = {}
    with ExitStack() as stack:
        server = stack.enter_context(postgres())
        contenders = [Contender(name, stack.enter_context(database(server))) for name in CONTENDERS]
        for one in contenders:
            stack.callback(one.connection.close)
        say("microseconds of processor time an event: server + Python, and their sum to before's")
        for count, size in BATCHES:
            row = contest(contenders, count, size, rounds)
            before = sum(row["before"].values())
            cells = [
                f"{name} {spent['server']:.1f} + {spent['python']:.1f}"
                f" ({sum(spent.values()) / before:.2f})"
                for name, spent in row.items()
            ]
            report[f"{count}x{size}"] = row
            say(f"{count:>4} of {size:>6} bytes: {', '.join(cells)}")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
