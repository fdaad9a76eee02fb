"""An application in one colour over one store, driven by code that blocks.

Whoever writes a test over a desk writes it once: `call` runs what a verb returns to its end.
"""

from __future__ import annotations

import asyncio
import inspect
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import duly
from duly.core.defaults import WAIT
from duly.core.ids import new_id
from duly.core.onestep import finish
from duly.jobs.lease import FetchRequest, LeasedJob, finish_inside, take
from duly.jobs.workers import rescue
from duly.worker.slots import Slots
from tests.support.arenas import settled
from tests.support.inboxes import done, found

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

    from duly.stores.join.drivers import Mode
    from tests.conftest import HandClock

Kind = Literal["sqlite", "memory", "postgres"]
HOUR = 60 * 60 * 1_000_000
FIXTURES: dict[Kind, str] = {"sqlite": "sqlite_url", "postgres": "postgres_url"}


@dataclass(frozen=True, slots=True)
class Case:
    """One store in one colour."""

    kind: Kind
    colour: Mode

    def __str__(self) -> str:
        return f"{self.kind}-{self.colour}"

    @contextmanager
    def open(
        self, request: pytest.FixtureRequest, clock: HandClock | None = None
    ) -> Iterator[Desk]:
        """A desk on the store that the tests have for it, closed at the end."""
        url = "memory:" if self.kind == "memory" else request.getfixturevalue(FIXTURES[self.kind])
        desk = Desk(url, self.colour, clock)
        try:
            yield desk
        finally:
            desk.close()


CASES = [
    Case("sqlite", "sync"),
    Case("sqlite", "async"),
    Case("memory", "sync"),
    Case("postgres", "sync"),
    Case("postgres", "async"),
]


class Desk:
    """An application with one job, and names that no other test has in the same database."""

    def __init__(self, url: str, colour: Mode, clock: HandClock | None) -> None:
        self.app = duly.Duly(url, clock=clock)
        self.app.store.open()
        self.colour = colour
        self.clock = clock
        self.name = f"job-{uuid.uuid4().hex}"
        self.verbs: Any = self.app.aio if colour == "async" else self.app
        self._loop = asyncio.Runner()

    def call(self, function: Callable[..., Any], *args: object, **options: object) -> Any:
        """Call it and wait for what it returns."""
        returned = function(*args, **options)
        return self._loop.run(settled(returned)) if inspect.isawaitable(returned) else returned

    def job(self, body: Callable[..., Any], **options: Any) -> None:
        """Register the desk's job: a function of ``job``, called in the desk's colour."""

        def blocking(job: Any) -> Any:
            return body(job)

        async def awaited(job: Any) -> Any:
            returned = body(job)
            return await returned if inspect.isawaitable(returned) else returned

        handler: Any = awaited if self.colour == "async" else blocking
        self.app.job(name=self.name, queue=self.name, **options)(handler)

    def enqueue(self, payload: object = None, **options: Any) -> duly.types.Enqueued:
        """Enqueue the desk's job."""
        made: duly.types.Enqueued = self.call(self.verbs.enqueue, self.name, payload, **options)
        return made

    def enqueue_many(self, payloads: object, **options: Any) -> list[duly.types.Enqueued]:
        """Enqueue many of it."""
        made: list[duly.types.Enqueued] = self.call(
            self.verbs.enqueue_many, self.name, payloads, **options
        )
        return made

    def work(self, **options: Any) -> duly.types.Worked:
        """Do what there is to do for this desk."""
        worked: duly.types.Worked = self.call(self.verbs.work, queues=[self.name], **options)
        return worked

    def lease(self, *, rescued: bool = False) -> LeasedJob:
        """Lease the one job that can run now, as a worker would that is never seen again."""
        [want] = Slots({self.name: 1}).wants()
        want = want._replace(fresh=1, turns=want.turns._replace(rescued=int(rescued)))
        asked = FetchRequest(new_id(), HOUR, [want], stage=True)
        runner = self.app.store.sync_runner
        [leased] = finish(runner.run(lambda session: take(session, asked), wait=WAIT))
        return leased

    def complete(self) -> None:
        """Have the one job that can run now done, without a worker."""
        leased = self.lease()
        runner = self.app.store.sync_runner
        finish(runner.run(lambda session: finish_inside(session, leased, "done", 0), wait=WAIT))

    def rescue(self) -> None:
        """Take back what lost workers have, and let the wait after it pass."""
        runner = self.app.store.sync_runner
        finish(runner.run_autocommit(lambda session: rescue(session, new_id()), wait=WAIT))
        if self.clock is not None:
            self.clock.advance(timedelta(minutes=5))

    def jobs(self) -> list[tuple[str, str]]:
        """The jobs in the table, by id and state, in the order of their ids."""
        rows = self.rows("SELECT id, state FROM duly_jobs WHERE name = '{name}' ORDER BY id")
        return [(str(job), state) for job, state in rows]

    def outcomes(self) -> list[str]:
        """What became of the jobs that are through."""
        return [
            outcome
            for (outcome,) in self.rows(
                "SELECT outcome FROM duly_history WHERE name = '{name}' ORDER BY ended"
            )
        ]

    def error(self) -> str:
        """Why the desk's one job failed the last time."""
        [(kept,)] = self.rows("SELECT last_error FROM duly_jobs WHERE name = '{name}'")
        return bytes(kept).decode()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What is committed; ``{name}`` stands for the desk's job."""
        return found(self.app.store, query.format(name=self.name))

    def change(self, statement: str) -> None:
        """Change something past duly; ``{name}`` stands for the desk's job."""
        done(self.app.store, statement.format(name=self.name))

    def close(self) -> None:
        """Close the application in the loop that used it."""
        self.call(self.app.aclose)
        self.app.close()
        self._loop.close()
