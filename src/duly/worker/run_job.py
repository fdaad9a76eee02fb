"""One run of a job, from its first statement to what is to be written about its end.

The same body serves both colours: a handler that blocks gets runners that never wait.
"""

from __future__ import annotations

import inspect
import random
import time
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from duly.core.defaults import WAIT
from duly.core.errors import Held, Misuse, StoreUnavailable
from duly.core.session import host_time
from duly.jobs import order
from duly.jobs.invoke import HandlerFailed, run_one_inside, run_plainly
from duly.jobs.job import AsyncJob, Job
from duly.jobs.lease import finish_inside, lost
from duly.jobs.outcome import DONE, SETTLED, SETTLED_STALE, STALE, Circumstances, Ended, judged
from duly.ledger import order_guard as guard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from duly.core.clock import Clock
    from duly.core.session import Opened, Runner, Session
    from duly.http_client.job_clients import Callers
    from duly.jobs.registry import Registry
    from duly.ledger.arguments import Advance
    from duly.worker.execution import Run

# How long a job waits that found the database busy before it had begun.
BUSY = timedelta(seconds=1) // timedelta(microseconds=1)


class Opener(Protocol):
    """Whoever opens the transactions of handlers: a store, or the user's ORM."""

    def opened(
        self, *, wait: timedelta, lasting: timedelta | None = None
    ) -> AbstractAsyncContextManager[Opened]:
        """A transaction, committed at the end of the block and rolled back on any error."""


class Place(NamedTuple):
    """Where runs of one colour do their work."""

    runner: Runner
    opener: Opener
    jobs: Registry
    clock: Clock | None
    secrets: Sequence[str]
    callers: Callers
    # Around each run of code that blocks: an ORM may keep a connection for each thread.
    renew_connections: Callable[[], AbstractContextManager[None]] = nullcontext

    def circumstances(self, run: Run) -> Circumstances:
        """What a decision about an end needs to know; the time is the database's."""
        passed = int((time.monotonic() - run.held) * 1_000_000)
        now = run.leased.taken_at + passed if self.clock is None else host_time(self.clock)
        return Circumstances(now, random.random(), self.secrets)  # noqa: S311


class NotBegun(Exception):
    """The database was busy before the handler's turn had come: nothing of it has run."""


async def perform(run: Run, place: Place) -> Ended:
    """Run the handler, and say how it ended. Cancellation passes through."""
    try:
        with place.renew_connections():
            return await attempt(run, place)
    except NotBegun:
        return Ended("again", delay=int(BUSY * random.random()))  # noqa: S311
    except HandlerFailed as failure:
        problem = failure.__cause__ or failure
    except (Exception, SystemExit) as failure:  # sys.exit() in a handler ends no worker
        problem = failure
    try:
        return judged(run.leased, run.handler, problem, place.circumstances(run))
    finally:
        # Its traceback holds this frame, and this frame holds it: a circle that keeps whatever the
        # handler left open until the next collection.
        del problem


async def attempt(run: Run, place: Place) -> Ended:
    """What to do, by what the handler declares."""
    handler, leased, event = run.handler, run.leased, run.event
    run.begun = time.monotonic()
    if handler.refetch is not None:
        event = replace(event, current=await asked(handler.refetch, event, handler.colour))
    question = order.asked(handler, leased, event)
    known, callers = None if event is None else event.id, place.callers
    job: AsyncJob | Job
    until = run.begun + handler.timeout / 1_000_000
    if handler.colour == "async":
        job = AsyncJob(leased, handler.name, known, place.runner, callers.awaited, until=until)
    else:
        job = Job(leased, handler.name, known, place.runner, callers.client, until=until)
    if "tx" in handler.wants:
        run.begun = None
        return await inside_transaction(run, place, question, event=event, job=job)
    if question is not None and not await current(place.runner, question):
        return STALE
    await run_plainly(handler, event=event, job=job)
    job.refuse_unkept()
    return DONE if question is None else DONE._replace(version=question)


async def asked(refetch: Any, event: Any, colour: str) -> Any:
    """What the source of truth says now; asked outside of any transaction."""
    answer = refetch(event)
    if colour == "async" and inspect.isawaitable(answer):
        return await answer
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()  # or Python complains that it was never awaited
        raise Misuse("refetch= of a handler that blocks must not be awaited: write `def`")
    return answer


async def inside_transaction(
    run: Run, place: Place, question: Advance | None, **offered: object
) -> Ended:
    """Work, child jobs and the end of the lease in one COMMIT."""
    lasting = timedelta(microseconds=run.handler.timeout)
    opening = place.opener.opened(wait=WAIT, lasting=lasting)
    try:
        opened = await opening.__aenter__()
    except (Held, StoreUnavailable) as problem:
        raise NotBegun from problem
    # The wait for a connection, or for SQLite's lock, is bounded by itself and not the handler's.
    run.begun = time.monotonic()
    try:
        if run.ended is not None:  # while it waited for its turn, its lease was lost
            raise lost(run.leased)
        run.revoke = opened.revoke
        ended = await in_opened(run, place, opened, question, offered)
    except BaseException as problem:
        run.revoke = None
        await opening.__aexit__(type(problem), problem, problem.__traceback__)
        raise
    await opening.__aexit__(None, None, None)
    run.revoke = None
    return ended


async def in_opened(
    run: Run, place: Place, opened: Opened, question: Advance | None, offered: dict[str, object]
) -> Ended:
    """What happens between BEGIN and COMMIT."""
    opened.at_ease()
    session = opened.session
    if question is not None and not await advanced(session, question):
        await finish_inside(session, run.leased, "stale", run.ran)
        return SETTLED_STALE
    await run_one_inside(run.handler, opened, place.jobs, **offered)
    await finish_inside(session, run.leased, "done", run.ran)
    return SETTLED


async def current(runner: Runner, question: Advance) -> bool:
    """Whether no later version was applied, before a run without a transaction."""

    async def compared(session: Session) -> bool:
        return await guard.would_apply(session, question)

    try:
        return await runner.run_single(compared, wait=WAIT)
    except Held as problem:  # somebody else has SQLite's lock
        raise NotBegun from problem


async def advanced(session: Session, question: Advance) -> bool:
    """Whether the version is the newest; it is recorded then, in the handler's transaction."""
    try:
        return await guard.newer(session, question)
    except Held as problem:  # another handler works on the same resource
        raise NotBegun from problem
