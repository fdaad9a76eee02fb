"""What the suite is run over: an application on a store, and a colour and a kind of handler.

A test writes its handler once, as a coroutine over a `Hand`. Where the handler blocks, nothing in
it ever waits, and one step runs it to its end.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import duly
from duly.core.onestep import finish
from duly.stores.sqlite.store import MemoryStore
from duly.worker.settings import WorkerSettings
from tests.support.processes.leading import PATIENCE
from tests.worker.records import WORKINGS, WRITE, Records

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from duly.worker.stats import Worked
    from duly.worker.worker import Worker
    from tests.conftest import HandClock

    Body = Callable[["Hand"], Awaitable[object]]

Kind = Literal["sqlite", "memory", "postgres", "bouncer"]
Colour = Literal["sync", "async"]
Way = Literal["tx", "leased"]
KINDS: tuple[Kind, ...] = ("sqlite", "memory", "postgres")
COLOURS: tuple[Colour, ...] = ("sync", "async")
WAYS: tuple[Way, ...] = ("tx", "leased")
# No wait after an error: most tests are about something else.
AT_ONCE = duly.Backoff(first=timedelta(0))


@dataclass(frozen=True, slots=True)
class DatabaseOf:
    """The address that duly is given, and the one where its tables are looked at."""

    url: str
    looked_at: str


class Hand:
    """One run of a handler, the same to use in every colour and kind."""

    def __init__(self, subject: Subject, job: Any, tx: Any) -> None:
        self.subject, self.job, self.tx = subject, job, tx

    async def write(self, note: str) -> None:
        """Leave a row of the user's: in the transaction of the handler, if it has one."""
        values = {"job": self.job.id, "note": note}
        app = self.subject.app
        if self.tx is not None:
            await self.waited(self.tx.execute(WRITE, **values))
        elif self.subject.case.colour == "async":
            async with app.aio.transaction() as awaited:
                await awaited.execute(WRITE, **values)
        else:
            with app.transaction() as blocking:
                blocking.execute(WRITE, **values)

    async def enqueue(self, job: str, payload: Any = None, **options: Any) -> Any:
        """Enqueue as the handler would: through its transaction, if it has one."""
        app = self.subject.app
        verbs = self.tx or (app.aio if self.subject.case.colour == "async" else app)
        return await self.waited(verbs.enqueue(job, payload, **options))

    async def effect(self, name: str, call: Callable[[str], Any], **options: Any) -> Any:
        """An external step; ``call`` blocks in either colour."""
        if self.subject.case.colour == "sync":
            return self.job.effect(name, call, **options)

        async def awaited(key: str) -> Any:
            return call(key)

        return await self.job.effect(name, awaited, **options)

    async def pause(self, seconds: float) -> None:
        """Take time, as handlers of this colour do."""
        if self.subject.case.colour == "async":
            await asyncio.sleep(seconds)
        else:
            time.sleep(seconds)  # noqa: ASYNC251  # this handler blocks

    async def waited(self, result: Any) -> Any:
        """The same call blocks in one colour and is awaited in the other."""
        return await result if self.subject.case.colour == "async" else result


class Subject:
    """One application with handlers of one colour and kind, and what they did."""

    def __init__(self, app: duly.Duly, case: Case, records: Records) -> None:
        self.app, self.case, self.records = app, case, records

    def job(self, body: Body, name: str = "work", **options: Any) -> None:
        """Register a coroutine as a job of the subject's colour and kind."""
        options.setdefault("backoff", AT_ONCE)
        self.app.job(name=name, **options)(self.handler(body))

    def handler(self, body: Body) -> Callable[..., Any]:
        """A coroutine as a handler of the subject's colour and kind."""

        def with_tx(job: Any, tx: Any) -> Any:
            return finish(body(Hand(self, job, tx)))  # type: ignore[arg-type]

        def leased(job: Any) -> Any:
            return finish(body(Hand(self, job, None)))  # type: ignore[arg-type]

        async def with_tx_awaited(job: Any, tx: Any) -> Any:
            return await body(Hand(self, job, tx))

        async def leased_awaited(job: Any) -> Any:
            return await body(Hand(self, job, None))

        if self.case.colour == "sync":
            return with_tx if self.case.way == "tx" else leased
        return with_tx_awaited if self.case.way == "tx" else leased_awaited

    def event_handler(self, body: Body, *, inline: bool = False) -> Callable[..., Any]:
        """The same for a handler of events; an inline one has no job."""

        def handle(event: Any, job: Any, tx: Any) -> Any:
            return finish(body(Hand(self, job, tx)))  # type: ignore[arg-type]

        async def handle_awaited(event: Any, job: Any, tx: Any) -> Any:
            return await body(Hand(self, job, tx))

        def handle_inline(event: Any, tx: Any) -> Any:
            return handle(event, None, tx)

        async def handle_inline_awaited(event: Any, tx: Any) -> Any:
            return await handle_awaited(event, None, tx)

        if self.case.colour == "sync":
            return handle_inline if inline else handle
        return handle_inline_awaited if inline else handle_awaited

    async def enqueue(self, job: str = "work", payload: Any = None, **options: Any) -> str:
        """Enqueue, in the subject's colour, and commit; the id of the job."""
        if self.case.colour == "async":
            return (await self.app.aio.enqueue(job, payload, **options)).id
        return (await asyncio.to_thread(self.app.enqueue, job, payload, **options)).id

    async def work(self, **options: Any) -> Worked:
        """Work until nothing is left to do now, in the subject's colour."""
        if self.case.colour == "async":
            return await self.app.aio.work(**options)
        return await asyncio.to_thread(self.app.work, **options)

    async def close(self) -> None:
        """Give back every connection."""
        await self.app.aclose()
        await asyncio.to_thread(self.app.close)


@dataclass(frozen=True, slots=True)
class Case:
    """One subject by name, made when a test asks for it."""

    kind: Kind
    colour: Colour
    way: Way

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.colour}-{self.way}"

    @property
    def locks(self) -> bool:
        """Whether a handler of this kind keeps everybody else from writing."""
        return self.way == "tx" and self.kind in ("sqlite", "memory")

    @asynccontextmanager
    async def open(
        self, place: DatabaseOf, clock: HandClock | None = None, **options: Any
    ) -> AsyncIterator[Subject]:
        """The subject over a database, closed at the end."""
        app = duly.Duly(place.url, clock=clock, **options)
        with records_of(app, place).looking() as records:
            subject = Subject(app, self, records)
            try:
                yield subject
            finally:
                await subject.close()


@asynccontextmanager
async def working(subject: Subject, **options: Any) -> AsyncIterator[Worker]:
    """A worker on a thread with an event loop of its own, told to stop at the end."""
    settings = WorkerSettings(**{"grace": timedelta(0), **options})
    worker = subject.app.process.worker(settings)
    running = asyncio.ensure_future(asyncio.to_thread(asyncio.run, ended(subject, worker)))
    try:
        yield worker
    finally:
        worker.stop()
        await running


async def ended(subject: Subject, worker: Worker) -> Worked:
    """What a worker did until it was stopped."""
    try:
        return await worker.run("stopped")
    finally:
        await subject.app.store.aclose_loop()


async def seen(look: Callable[[], bool]) -> None:
    """Wait until it is so, without stopping the event loop; fails when patience is at its end."""
    deadline = time.monotonic() + PATIENCE
    while not look():
        assert time.monotonic() < deadline, "it never happened"
        await asyncio.sleep(0.01)


def records_of(app: duly.Duly, place: DatabaseOf) -> Records:
    """The tables; only a test goes and looks for the file of the temporary store."""
    if not isinstance(app.store, MemoryStore):
        return Records(place.looked_at)
    app.store.open()
    records = Records(f"sqlite:///{Path(app.store._folder.name) / 'memory.db'}")
    records.run(WORKINGS)
    return records


def cases(
    kinds: Iterable[Kind] = KINDS, colours: Iterable[Colour] = COLOURS, ways: Iterable[Way] = WAYS
) -> list[Case]:
    """Every combination of these."""
    colours, ways = tuple(colours), tuple(ways)
    return [Case(kind, colour, way) for kind in kinds for colour in colours for way in ways]


# Every pair of a store, a colour and a way, in six subjects instead of twelve.
WOVEN = [
    Case("sqlite", "sync", "tx"),
    Case("sqlite", "async", "leased"),
    Case("memory", "sync", "leased"),
    Case("memory", "async", "tx"),
    Case("postgres", "sync", "leased"),
    Case("postgres", "async", "tx"),
]
# By way of PgBouncer everything must work, and it is the same code: two of the ways show it.
BOUNCED = [Case("bouncer", "sync", "tx"), Case("bouncer", "async", "leased")]
