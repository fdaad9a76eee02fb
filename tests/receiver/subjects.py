"""What the suite is run over: an application on a store, a server before it, and a way to work.

A `Subject` has sources that behave alike whichever way it works: a handler leaves a job, or the
effect itself where it runs inside the accepting transaction. `Subject.worked` shows either.
"""

from __future__ import annotations

import asyncio
import uuid
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import duly
from duly.stores.sqlite.store import MemoryStore
from tests.receiver.drivers import SERVERS, Answer, Request, Server, ServerName
from tests.receiver.records import EFFECTS, WRITE, Records
from tests.receiver.senders import Sender
from tests.webhooks.genuine import keys

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from tests.conftest import HandClock

Kind = Literal["sqlite", "memory", "postgres", "bouncer"]
Way = Literal["deferred", "inline", "inline-async"]
KINDS: tuple[Kind, ...] = ("sqlite", "memory", "postgres")
SERVER_NAMES: tuple[ServerName, ...] = ("asgi", "wsgi")
WAYS: tuple[Way, ...] = ("deferred", "inline", "inline-async")


class Subject:
    """One application, its server, and what its handlers did."""

    def __init__(self, app: duly.Duly, server: Server, way: Way, records: Records) -> None:
        self.app, self.server, self.way, self.records = app, server, way, records
        self.seen: list[Any] = []  # the events that handlers ran for
        # What a handler does before its effect: nothing, unless a test has it raise or wait.
        self.trouble: Callable[[Any], None] | None = None

    def source(
        self,
        provider: str = "standard-webhooks",
        *,
        handled: str | None = "*",
        now: HandClock | None = None,
        name: str | None = None,
        **options: Any,
    ) -> Sender:
        """A source that no other test has, with a handler unless it is to have none."""
        name = f"{provider}-{uuid.uuid4().hex[:12]}" if name is None else name
        secret = options.pop("secret", keys(provider).receiver)
        inline = self.way != "deferred"
        self.app.source(name, secret=secret, provider=provider, inline=inline, **options)
        if handled is not None:
            self.on(name, handled)
        return Sender(self, name, provider, now)

    def on(self, source: str, pattern: str, name: str = "handle") -> Any:
        """Add a handler of the subject's colour."""
        return self.app.on(source, pattern, name=name)(self.handler(name))

    def handler(self, name: str) -> Any:
        """A handler that leaves one row of the user's for each event."""

        def handle(event: Any, tx: Any) -> None:
            self.seen.append(event)
            if self.trouble is not None:
                self.trouble(event)
            tx.execute(WRITE, source=event.source, event=event.id, handler=name)

        async def handle_awaited(event: Any, tx: Any) -> None:
            self.seen.append(event)
            if self.trouble is not None:
                await asyncio.to_thread(self.trouble, event)
            await tx.execute(WRITE, source=event.source, event=event.id, handler=name)

        return handle_awaited if self.way == "inline-async" else handle

    def worked(self, source: str) -> list[tuple[str, str]]:
        """What was done, or will be: the event and the handler of each job or effect."""
        done, undone = self.records.effects(source), self.records.jobs(source)
        assert not (undone if self.way != "deferred" else done), "it worked the other way"
        return undone if self.way == "deferred" else done

    async def ask(self, request: Request) -> Answer:
        """Send any request at all."""
        return await self.server.ask(request)

    async def flush(self) -> None:
        """Have written what is counted, as at the end of a server."""
        if isinstance(self.server, SERVERS["asgi"]):
            await self.app.receiver.aclose()
        else:
            await asyncio.to_thread(self.app.receiver.close)

    async def forget(self, source: str, event_id: str, **options: Any) -> Any:
        """Forget an event, in the colour of the server."""
        if isinstance(self.server, SERVERS["asgi"]):
            return await self.app.aio.forget(source, event_id, **options)
        return await asyncio.to_thread(self.app.forget, source, event_id, **options)


@dataclass(frozen=True, slots=True)
class Case:
    """One subject by name, made when a test asks for it."""

    kind: Kind
    server: ServerName
    way: Way

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.server}-{self.way}"

    @asynccontextmanager
    async def open(
        self, place: DatabaseOf, clock: HandClock | None, **options: Any
    ) -> AsyncIterator[Subject]:
        """The subject over a database, closed at the end."""
        app = duly.Duly(place.url, clock=clock, **options)
        server = SERVERS[self.server](app)
        try:
            with records_of(app, place).looking() as records:
                yield Subject(app, server, self.way, records)
        finally:
            await server.close()


@dataclass(frozen=True, slots=True)
class DatabaseOf:
    """The address that duly is given, and the one where its tables are looked at."""

    url: str
    looked_at: str


def records_of(app: duly.Duly, place: DatabaseOf) -> Records:
    """The tables; only a test goes and looks for the file of the temporary store."""
    if not isinstance(app.store, MemoryStore):
        return Records(place.looked_at)
    app.store.open()
    records = Records(f"sqlite:///{Path(app.store._folder.name) / 'memory.db'}")
    records.run(EFFECTS)
    return records


def cases(
    kinds: Iterable[Kind] = KINDS,
    servers: Iterable[ServerName] = SERVER_NAMES,
    ways: Iterable[Way] = WAYS,
) -> list[Case]:
    """Every combination of these."""
    servers, ways = tuple(servers), tuple(ways)
    return [Case(kind, server, way) for kind in kinds for server in servers for way in ways]


# Every pair of a store, a server and a way, in nine subjects instead of eighteen.
WOVEN = [
    Case("sqlite", "wsgi", "deferred"),
    Case("sqlite", "asgi", "inline"),
    Case("sqlite", "wsgi", "inline-async"),
    Case("memory", "asgi", "deferred"),
    Case("memory", "wsgi", "inline"),
    Case("memory", "asgi", "inline-async"),
    Case("postgres", "asgi", "deferred"),
    Case("postgres", "wsgi", "inline"),
    Case("postgres", "asgi", "inline-async"),
]
# By way of PgBouncer everything must work, and it is the same code: two of the ways show it.
BOUNCED = [Case("bouncer", "asgi", "deferred"), Case("bouncer", "wsgi", "inline")]
