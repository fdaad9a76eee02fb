"""A small shop without processes or faults, whose books balance; to be doctored."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import sqlite3
import threading
from contextlib import closing, contextmanager
from copy import deepcopy
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import duly
from duly.demo.context import CounterIndex, SharedCounters
from duly.demo.databases import SqliteDatabase
from duly.demo.downstream import DownstreamConnection, DownstreamReceiver
from duly.demo.events import HUB_SOURCE, Catalog, EventKind, StormEvent
from duly.demo.evidence import gather_evidence
from duly.demo.journal import Journal
from duly.demo.ledger import audit_ledger
from duly.demo.processes import Faults
from duly.demo.sender import FLAGS
from duly.demo.sender_log import FIRST, SENT, SenderLog
from duly.demo.settings import Settings, file_url
from duly.demo.shop import ShopHandlers, shop
from duly.demo.traffic import FOLLOW_UPS, DeliveryWriter, PlannedDelivery

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SEED = 7
CATALOG = Catalog(SEED, calm_from=0)
AT_ONCE = duly.Backoff(first=timedelta(0), cap=timedelta(0))


def read(request: bytes) -> tuple[dict[str, str], bytes]:
    """The headers and the body of a request."""
    head, _, body = request.partition(b"\r\n\r\n")
    headers = {}
    for line in head.decode().split("\r\n")[1:]:
        name, _, value = line.partition(": ")
        headers[name] = value
    return headers, body


def events() -> list[StormEvent]:
    """A few of every kind that does not wait, and does not kill."""
    every = [CATALOG.event(number) for number in range(3000)]
    plain = [event for event in every if event.kind is EventKind.PLAIN]
    return [
        *plain[:20],
        *[event for event in plain[20:] if event.gift][:2],
        *[event for event in plain[20:] if event.source == HUB_SOURCE][:2],
        *[event for event in every if event.kind is EventKind.POISON][:2],
        *[event for event in every if event.kind is EventKind.CHANGED][:2],
        *[event for event in every if event.kind is EventKind.CONFLICT][:2],
    ]


class SmallShop:
    """The events: received, handled, told downstream."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = Settings(file_url(folder / "storm.db"), folder, SEED, 100, None)
        self.books = SenderLog(calm_from=0)

    def run(self) -> None:
        """Deliver, work, relay."""
        shared = SharedCounters()
        shared[CounterIndex.CALM] = 1
        SqliteDatabase(self.settings).prepare()
        listener = socket.create_server(("127.0.0.1", 0))
        downstream = f"http://127.0.0.1:{listener.getsockname()[1]}"
        journal = Journal(self.folder / "worker-0.journal")
        handling = ShopHandlers(
            self.settings, shared, journal, slot=0, downstream=f"{downstream}/messages"
        )
        with closing(shop(self.settings, self.settings.url, downstream, handling)) as app:
            for event in events():
                self.deliver(app, PlannedDelivery(event))
                for sort in FOLLOW_UPS.get(event.kind, []):
                    self.deliver(app, PlannedDelivery(event, sort))
            app.work()
            with self.listening(shared, listener):
                app.relay()

    def deliver(self, app: duly.Duly, delivery: PlannedDelivery) -> None:
        """Deliver, and enter it into the books as the sender does."""
        event, sort = delivery
        reply = app.receive(event.source, *read(DeliveryWriter(SEED).request(delivery)))
        told = json.loads(reply.body)["status"]
        self.books.deliveries += 1
        self.books.answers[told] += 1
        self.books.mark(event.number, SENT | FLAGS[sort] | (FIRST if told == "accepted" else 0))

    @contextmanager
    def listening(self, shared: SharedCounters, listener: socket.socket) -> Iterator[None]:
        """The receiver downstream, on a thread of its own."""
        up = threading.Event()
        over = asyncio.Event()
        loops = []

        async def listen() -> None:
            loops.append(asyncio.get_running_loop())
            with closing(
                DownstreamReceiver(self.settings, shared, self.folder / "downstream.db")
            ) as receiver:
                server = await loops[0].create_server(
                    lambda: DownstreamConnection(receiver), sock=listener
                )
                async with server:
                    up.set()
                    await over.wait()

        thread = threading.Thread(target=lambda: asyncio.run(listen()))
        thread.start()
        up.wait()
        try:
            yield
        finally:
            loops[0].call_soon_threadsafe(over.set)
            thread.join()

    def copied(self, folder: Path) -> SmallShop:
        """The same, in another folder."""
        shutil.copytree(self.folder, folder)
        other = SmallShop(folder)
        other.books = deepcopy(self.books)
        return other

    def doctor(self, statement: str, file: str = "storm.db") -> None:
        """Change a row behind duly's back."""
        with closing(sqlite3.connect(self.folder / file)) as connection, connection:
            assert connection.execute(statement).rowcount > 0

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """What is in the tables."""
        with closing(sqlite3.connect(self.folder / "storm.db")) as connection:
            return connection.execute(statement).fetchall()

    def note(self, line: str) -> None:
        """Write into the journal of a worker."""
        with (self.folder / "worker-0.journal").open("a") as journal:
            journal.write(f"{line}\n")

    def unbalanced(self, killed: set[int] | None = None, replayed: int = 0) -> set[str]:
        """The lines of the ledger that do not hold."""
        evidence = gather_evidence(
            SqliteDatabase(self.settings),
            self.folder,
            killed or set(),
            lambda number: CATALOG.event(number).amount,
        )
        evidence.replayed = replayed
        lines = audit_ledger(evidence, self.books, CATALOG, Faults())
        return {f"{line.left} = {line.right}" for line in lines if not line.balances}
