"""An application on a store and in a colour, a receiver that it sends to, and what both know."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import duly
from duly.core.clock import from_microseconds
from duly.outbox.egress import Egress
from duly.relay.settings import RelaySettings
from tests.outbox.receivers import Receiver
from tests.worker.subjects import Case, cases

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from duly.outbox.message import Staged
    from duly.relay.relay import Relay
    from duly.relay.stats import Relayed
    from tests.conftest import HandClock
    from tests.worker.subjects import DatabaseOf, Subject

EVERY = cases(ways=["tx"])
# The relay is the same code in both colours: where it is what is tried, each store is tried once.
STORES = [
    Case("sqlite", "sync", "tx"),
    Case("memory", "async", "tx"),
    Case("postgres", "async", "tx"),
]
TABLES = ("duly_claims", "duly_history", "duly_outbox")
LETTER = {"order": 7}
COLUMNS = "id, destination, state, attempts, rescues, epoch, token, run_at, created_at, last_error"
# No wait after an error: most tests are about something else.
AT_ONCE = duly.Backoff(first=timedelta(0))


class Row(NamedTuple):
    """One message in the table, as a test looks at it."""

    id: str
    destination: str
    state: str
    attempts: int
    rescues: int
    epoch: int
    token: bytes | None
    run_at: datetime
    created_at: datetime
    error: dict[str, Any] | None

    @property
    def counted(self) -> tuple[str, int, int]:
        """Its state and its two counters."""
        return self.state, self.attempts, self.rescues

    @property
    def wait(self) -> timedelta:
        """From when it was staged to when it may be sent."""
        return self.run_at - self.created_at


class Office:
    """One application that sends, and a receiver that it may send to."""

    def __init__(self, subject: Subject, there: Receiver) -> None:
        self.subject, self.there = subject, there
        self.app, self.records = subject.app, subject.records
        self.awaited = subject.case.colour == "async"

    async def call(self, verb: str, *args: Any, **options: Any) -> Any:
        """A verb of the application, ``outbox.replay`` say, in its colour."""
        found: Any = self.app.aio if self.awaited else self.app
        for part in verb.split("."):
            found = getattr(found, part)
        if self.awaited:
            return await found(*args, **options)
        return await asyncio.to_thread(found, *args, **options)

    async def send(self, to: str = "/hook", **options: Any) -> Staged:
        """Stage a message to a path of the receiver, or to another address; and commit."""
        if "data" not in options:
            options.setdefault("json", LETTER)
        staged: Staged = await self.call("send", self.url(to), **options)
        return staged

    async def send_many(self, count: int, to: str = "/hook", **options: Any) -> list[str]:
        """Stage so many in one transaction; their ids."""
        return await self.send_all([to] * count, **options)

    async def send_all(self, places: Sequence[str], **options: Any) -> list[str]:
        """Stage one to each in one transaction; their ids."""
        if "data" not in options:
            options.setdefault("json", LETTER)
        if self.awaited:
            async with self.app.aio.transaction() as tx:
                return [(await tx.send(self.url(to), **options)).id for to in places]

        def staged() -> list[str]:
            with self.app.transaction() as tx:
                return [tx.send(self.url(to), **options).id for to in places]

        return await asyncio.to_thread(staged)

    async def waited(self, result: Any) -> Any:
        """The same call blocks in one colour and is awaited in the other."""
        return await result if self.awaited else result

    def url(self, to: str) -> str:
        """The address that a path stands for."""
        return f"{self.there.url}{to}" if to.startswith("/") else to

    async def relay(self, **options: Any) -> Relayed:
        """Send until nothing is left to send now."""
        relayed: Relayed = await self.call("relay", **options)
        return relayed

    def messages(self) -> list[Row]:
        """What is in the table, committed."""
        return [
            row_from(values) for values in self.records.rows(f"SELECT {COLUMNS} FROM duly_outbox")
        ]

    def message(self, id: str) -> Row:
        """One that has not left the table."""
        [found] = [row for row in self.messages() if row.id == id]
        return found

    def history(self, id: str) -> list[tuple[str, str, int]]:
        """What is remembered of a message: its destination, outcome and attempts."""
        return self.records.history(id)

    def counts(self) -> dict[str, int]:
        """The counters of the relays, over all destinations and days."""
        rows = self.records.rows(
            "SELECT name, sum(n) FROM duly_counters WHERE name LIKE 'message_%' GROUP BY name"
        )
        return {name.removeprefix("message_"): int(count) for name, count in rows}

    def everything(self) -> object:
        """Every row that an operation on messages could change."""
        return self.records.everything(*TABLES)


def row_from(values: tuple[Any, ...]) -> Row:
    """SQLite keeps microseconds, PostgreSQL moments."""
    *_, error = values
    row = Row._make(values)
    return row._replace(
        id=str(row.id),
        run_at=moment_of(row.run_at),
        created_at=moment_of(row.created_at),
        error=None if error is None else json.loads(bytes(error)),
    )


def moment_of(value: Any) -> datetime:
    """A time as either database keeps it."""
    found: datetime = from_microseconds(value) if isinstance(value, int) else value
    return found


@asynccontextmanager
async def an_office(
    case: Case,
    place: DatabaseOf,
    clock: HandClock | None = None,
    *others: Receiver | str,
    **options: Any,
) -> AsyncIterator[Office]:
    """An application that may send to a receiver of its own, and to these others or their URLs."""
    with Receiver() as there:
        urls = [one if isinstance(one, str) else one.url for one in (there, *others)]
        egress = Egress(allow=urls, **options)
        async with case.open(place, clock, egress=egress) as subject:
            yield Office(subject, there)


@asynccontextmanager
async def relaying(office: Office, **options: Any) -> AsyncIterator[Relay]:
    """A relay on a thread with an event loop of its own, told to stop at the end."""
    relay = office.app.process.relay(RelaySettings(**options))
    running = asyncio.ensure_future(asyncio.to_thread(asyncio.run, ended(office, relay)))
    try:
        yield relay
    finally:
        relay.stop()
        await running


async def ended(office: Office, relay: Relay) -> Relayed:
    """What a relay did until it was stopped."""
    try:
        return await relay.run("stopped")
    finally:
        await office.app.store.aclose_loop()
