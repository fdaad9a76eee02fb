"""The application that the matrix strikes: one handler of each kind, in either colour.

Effects go into a table without any constraint, and another counts them: a double cannot hide.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import duly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from duly.jobs.job import AsyncJob
    from duly.jobs.tx import AsyncTx
    from verification.crash_matrix.journal import Journal

Colour = Literal["sync", "async"]
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
HUB_SECRET = "a secret of the hub"
TABLES = (
    "CREATE TABLE effects (what text, who integer)",
    "CREATE TABLE totals (total integer)",
)
WRITE = "INSERT INTO effects (what, who) VALUES (:what, :who)"
# Added up, and not one row for all: whoever is stopped in a transaction would hold up everybody.
COUNT = "INSERT INTO totals (total) VALUES (1)"
MICROSECONDS_OF_AN_HOUR = 3_600_000_000


@dataclass(frozen=True)
class OnceAtOnce(duly.Backoff):
    """No dice: in each process the first retry of a job is due at once, the next in an hour.

    So the worker whose run failed always takes the retry, and the boundaries of a flow are the same
    in each run of it. A job that never succeeds does not keep its worker for ever: the recovery,
    whose clock is ahead, comes to it again.
    """

    retries: Iterator[int] = field(default_factory=count)

    def delay(self, attempt: int, draw: float) -> int:  # noqa: ARG002
        """Microseconds to wait after this attempt."""
        return MICROSECONDS_OF_AN_HOUR if next(self.retries) else 0


class Terms(NamedTuple):
    """What an application needs to know."""

    url: str
    origin: str
    colour: Colour
    journal: Journal
    clock: Callable[[], datetime] | None = None
    # Holds every job for as long as somebody wants.
    gate: Callable[[], None] = lambda: None


def shop(terms: Terms) -> duly.Duly:
    """The application, with nothing opened yet."""
    app = duly.Duly(
        terms.url,
        clock=terms.clock,
        connections=4,
        egress=duly.Egress(allow=[terms.origin], deadline=timedelta(seconds=5)),
    )
    app.source("orders", secret=SECRET, provider="standard-webhooks")
    app.source("counter", secret=SECRET, provider="standard-webhooks", inline=True)
    for name in ("hub", "lost"):
        app.source(name, secret=HUB_SECRET, provider="github")
    app.source("ledger", secret=SECRET, provider="standard-webhooks")
    handlers = Blocking(terms) if terms.colour == "sync" else Awaited(terms)
    for source in ("orders", "hub"):
        app.on(source, "*", name="book")(handlers.book)
    app.on("counter", "*", name="serve")(handlers.serve)
    app.on("lost", "*", name="drop", attempts=1)(handlers.drop)
    for name in ("keep", "tell"):
        app.on("ledger", "*", name=name, order=("type", "amount"))(getattr(handlers, name))
    for name in ("follow", "mail", "charge", "flaky", "shaky", "slow"):
        app.job(name=name, attempts=5, backoff=OnceAtOnce())(getattr(handlers, name))
    app.job(name="doomed", attempts=1)(handlers.doomed)
    app.job(name="sell", many=10, attempts=5, backoff=OnceAtOnce())(handlers.sell)
    return app


def scheduled(terms: Terms) -> duly.Duly:
    """The same with a schedule; apart, because every worker of it would enqueue."""
    app = shop(terms)
    handlers = Blocking(terms) if terms.colour == "sync" else Awaited(terms)
    app.cron("0 * * * *", name="sweep", missed="all", attempts=5, backoff=OnceAtOnce())(
        handlers.sweep
    )
    return app


class Outside:
    """What handlers of both colours do outside the database."""

    def __init__(self, terms: Terms) -> None:
        self._origin, self._journal, self._gate = terms.origin, terms.journal, terms.gate

    def _call(self, name: str, key: str) -> str:
        self._journal.write("call", name=name, key=key)
        return name

    def _refuse_unmended(self) -> None:
        if not self._journal.of("mended"):
            raise ValueError("nobody has mended it")

    def _refuse_broken(self, jobs: Sequence[Any]) -> None:
        if any(job.payload["of"] == "broken" and job.attempt == 1 for job in jobs):
            raise ValueError("not the first time")

    def _shake(self, job: Any, key: str) -> str:
        name = self._call(f"shaky {job.payload['of']}", key)
        if job.attempt == 1:
            raise ValueError("it did not happen")
        return name


class Blocking(Outside):
    """Handlers that block."""

    def book(self, event: Any, tx: duly.Tx) -> None:
        """Everything in one transaction: the effect, further work and a message."""
        note(tx, f"book {event.id}")
        self._gate()
        tx.enqueue("follow", {"of": event.id})
        tx.send(f"{self._origin}/ok/{event.id}", json={"of": event.id})

    def serve(self, event: Any, tx: duly.Tx) -> None:
        """An effect inside the accepting transaction."""
        note(tx, f"serve {event.id}")

    def drop(self, event: Any, tx: duly.Tx) -> None:
        """Fails for good, until it is mended."""
        note(tx, f"drop {event.id}")
        self._refuse_unmended()

    def keep(self, event: Any, tx: duly.Tx) -> None:
        """An effect in its order."""
        note(tx, f"keep {event.id}")

    def tell(self, event: Any, job: duly.Job) -> None:
        """A call in its order."""
        self._call(f"tell {event.id}", job.key("tell"))

    def follow(self, job: duly.Job, tx: duly.Tx) -> None:
        """An effect of a job."""
        note(tx, f"follow {job.payload['of']}")
        self._gate()

    def mail(self, job: duly.Job) -> None:
        """A call to the outside, which may have to be repeated."""
        self._call(f"mail {job.payload['of']}", job.key("mail"))
        self._gate()

    def charge(self, job: duly.Job) -> None:
        """A step outside whose outcome is remembered."""
        job.effect("charge", lambda key: self._call(f"charge {job.payload['of']}", key))
        self._gate()

    def flaky(self, job: duly.Job, tx: duly.Tx) -> None:
        """Fails after its effect, the first time."""
        note(tx, f"flaky {job.payload['of']}")
        if job.attempt == 1:
            raise ValueError("not the first time")

    def doomed(self, job: duly.Job, tx: duly.Tx) -> None:
        """Fails after its effect, always."""
        note(tx, f"doomed {job.payload['of']}")
        raise ValueError("never")

    def sell(self, jobs: list[duly.Job], tx: duly.Tx) -> None:
        """An effect of each of many jobs; one that is broken fails, the first time."""
        for job in jobs:
            note(tx, f"sell {job.payload['of']}")
        self._gate()
        self._refuse_broken(jobs)

    def shaky(self, job: duly.Job) -> None:
        """A step that says that it did not happen, the first time."""
        job.effect("shake", lambda key: self._shake(job, key), not_done=(ValueError,))

    def slow(self, job: duly.Job) -> None:
        """Takes as long as the flow wants it to."""
        self._call(f"slow {job.payload['of']}", job.key("slow"))
        self._gate()

    def sweep(self, job: duly.Job, tx: duly.Tx) -> None:
        """What a schedule starts."""
        note(tx, f"sweep {job.payload['slot']}")


class Awaited(Outside):
    """The same, awaited."""

    async def book(self, event: Any, tx: AsyncTx) -> None:
        """Everything in one transaction."""
        await note_awaited(tx, f"book {event.id}")
        await asyncio.to_thread(self._gate)
        await tx.enqueue("follow", {"of": event.id})
        await tx.send(f"{self._origin}/ok/{event.id}", json={"of": event.id})

    async def serve(self, event: Any, tx: AsyncTx) -> None:
        """An effect inside the accepting transaction."""
        await note_awaited(tx, f"serve {event.id}")

    async def drop(self, event: Any, tx: AsyncTx) -> None:
        """Fails for good, until it is mended."""
        await note_awaited(tx, f"drop {event.id}")
        self._refuse_unmended()

    async def keep(self, event: Any, tx: AsyncTx) -> None:
        """An effect in its order."""
        await note_awaited(tx, f"keep {event.id}")

    async def tell(self, event: Any, job: AsyncJob) -> None:
        """A call in its order."""
        self._call(f"tell {event.id}", job.key("tell"))

    async def follow(self, job: AsyncJob, tx: AsyncTx) -> None:
        """An effect of a job."""
        await note_awaited(tx, f"follow {job.payload['of']}")
        await asyncio.to_thread(self._gate)

    async def mail(self, job: AsyncJob) -> None:
        """A call to the outside."""
        self._call(f"mail {job.payload['of']}", job.key("mail"))
        await asyncio.to_thread(self._gate)

    async def charge(self, job: AsyncJob) -> None:
        """A step outside whose outcome is remembered."""

        async def call(key: str) -> str:
            return self._call(f"charge {job.payload['of']}", key)

        await job.effect("charge", call)
        await asyncio.to_thread(self._gate)

    async def flaky(self, job: AsyncJob, tx: AsyncTx) -> None:
        """Fails after its effect, the first time."""
        await note_awaited(tx, f"flaky {job.payload['of']}")
        if job.attempt == 1:
            raise ValueError("not the first time")

    async def doomed(self, job: AsyncJob, tx: AsyncTx) -> None:
        """Fails after its effect, always."""
        await note_awaited(tx, f"doomed {job.payload['of']}")
        raise ValueError("never")

    async def sell(self, jobs: list[AsyncJob], tx: AsyncTx) -> None:
        """An effect of each of many jobs; one that is broken fails, the first time."""
        for job in jobs:
            await note_awaited(tx, f"sell {job.payload['of']}")
        await asyncio.to_thread(self._gate)
        self._refuse_broken(jobs)

    async def shaky(self, job: AsyncJob) -> None:
        """A step that says that it did not happen, the first time."""

        async def shake(key: str) -> str:
            return self._shake(job, key)

        await job.effect("shake", shake, not_done=(ValueError,))

    async def slow(self, job: AsyncJob) -> None:
        """Takes as long as the flow wants it to."""
        self._call(f"slow {job.payload['of']}", job.key("slow"))
        await asyncio.to_thread(self._gate)

    async def sweep(self, job: AsyncJob, tx: AsyncTx) -> None:
        """What a schedule starts."""
        await note_awaited(tx, f"sweep {job.payload['slot']}")


def note(tx: duly.Tx, what: str) -> None:
    """One effect, and the counter with it."""
    tx.execute(WRITE, what=what, who=os.getpid())
    tx.execute(COUNT)


async def note_awaited(tx: AsyncTx, what: str) -> None:
    """The same, awaited."""
    await tx.execute(WRITE, what=what, who=os.getpid())
    await tx.execute(COUNT)
