"""One run of a job, from its first statement to what is to be written about its end.

The same body serves both colours: a handler that blocks gets runners that never wait.
"""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from duly.core.defaults import WAIT
from duly.core.errors import InProgress, StoreUnavailable, UsageError
from duly.core.host import HOST, Deadline, Host
from duly.core.retry import RESCUE_BACKOFF, Backoff
from duly.core.session import host_time
from duly.jobs import order
from duly.jobs.invoke import HandlerFailed, call_handler, run_one_in_transaction
from duly.jobs.job import AsyncJob, Job
from duly.jobs.lease import finish_inside, lease_lost_error
from duly.jobs.outcome import (
    DONE,
    SETTLED,
    SETTLED_STALE,
    STALE,
    JobOutcome,
    RunContext,
    outcome_of_run,
)
from duly.ledger import order_guard as guard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from duly.core.clock import Clock
    from duly.core.session import OpenedTransaction, Runner, Session
    from duly.http_client.job_clients import JobClients
    from duly.jobs.registry import Registry
    from duly.ledger.arguments import VersionAdvance
    from duly.service.wakeup import Wakeup
    from duly.worker.execution import Execution

# How long a job waits that found the database busy before it had begun.
BUSY = timedelta(seconds=1) // timedelta(microseconds=1)


class JobTransactionOpener(Protocol):
    """Whoever opens the transactions of handlers: a store, or the user's ORM."""

    def open_transaction(
        self, *, wait: timedelta, lasting: timedelta | None = None
    ) -> AbstractAsyncContextManager[OpenedTransaction]:
        """A transaction, committed at the end of the block and rolled back on any error."""


class ExecutionContext(NamedTuple):
    """Where runs of one colour do their work."""

    runner: Runner
    opener: JobTransactionOpener
    jobs: Registry
    clock: Clock | None
    secrets: Sequence[str]
    callers: JobClients
    wakeup: Wakeup
    # Around each run of code that blocks: an ORM may keep a connection for each thread.
    renew_connections: Callable[[], AbstractContextManager[None]] = nullcontext
    host: Host = HOST
    rescue_backoff: Backoff = RESCUE_BACKOFF

    def circumstances(self, run: Execution) -> RunContext:
        """What a decision about an end needs to know; the time is the database's."""
        passed = int((self.host.monotonic() - run.leased_at) * 1_000_000)
        now = run.leased.taken_at + passed if self.clock is None else host_time(self.clock)
        return RunContext(now, self.host.random.random(), self.secrets, self.rescue_backoff)


class NotStarted(Exception):
    """The database was busy before the handler's turn had come: nothing of it has run."""


async def execute_job(run: Execution, context: ExecutionContext) -> JobOutcome:
    """Run the handler, and say how it ended. Cancellation passes through."""
    try:
        with context.renew_connections():
            return await run_attempt(run, context)
    except NotStarted:
        return JobOutcome("again", delay=int(BUSY * context.host.random.random()))
    except HandlerFailed as failure:
        problem = failure.__cause__ or failure
    except (Exception, SystemExit) as failure:  # sys.exit() in a handler ends no worker
        problem = failure
    try:
        return outcome_of_run(run.leased, run.handler, problem, context.circumstances(run))
    finally:
        # Its traceback holds this frame, and this frame holds it: a circle that keeps whatever the
        # handler left open until the next collection.
        del problem


async def run_attempt(run: Execution, context: ExecutionContext) -> JobOutcome:
    """What to do, by what the handler declares."""
    handler, leased, event = run.handler, run.leased, run.event
    run.handler_started_at = context.host.monotonic()
    if handler.refetch is not None:
        event = replace(event, current=await call_refetch(handler.refetch, event, handler.mode))
    question = order.order_question(handler, leased, event)
    named = leased, handler.name, None if event is None else event.id, context.runner
    callers = context.callers
    job: AsyncJob | Job
    until = run.handler_started_at + handler.timeout / 1_000_000
    deadline = Deadline(context.host.monotonic, until)
    if handler.mode == "async":
        job = AsyncJob(*named, callers.async_client, deadline=deadline)
    else:
        job = Job(*named, callers.client, deadline=deadline)
    if "tx" in handler.wants:
        run.handler_started_at = None
        return await run_in_transaction(run, context, question, event=event, job=job)
    if question is not None and not await is_current_version(context.runner, question):
        return STALE
    await call_handler(handler, event=event, job=job)
    job.refuse_unkept()
    return DONE if question is None else DONE._replace(version=question)


async def call_refetch(refetch: Any, event: Any, mode: str) -> Any:
    """What the source of truth says now; asked outside of any transaction."""
    answer = refetch(event)
    if mode == "async" and inspect.isawaitable(answer):
        return await answer
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()  # or Python complains that it was never awaited
        raise UsageError("refetch= of a handler that blocks must not be awaited: write `def`")
    return answer


async def run_in_transaction(
    run: Execution, context: ExecutionContext, question: VersionAdvance | None, **offered: object
) -> JobOutcome:
    """Work, child jobs and the end of the lease in one COMMIT."""
    lasting = timedelta(microseconds=run.handler.timeout)
    opening = context.opener.open_transaction(wait=WAIT, lasting=lasting)
    try:
        opened = await opening.__aenter__()
    except (InProgress, StoreUnavailable) as problem:
        raise NotStarted from problem
    # The wait for a connection, or for SQLite's lock, is bounded by itself and not the handler's.
    run.handler_started_at = context.host.monotonic()
    try:
        if run.ended is not None:  # while it waited for its turn, its lease was lost
            raise lease_lost_error(run.leased)
        run.revoke = opened.revoke
        ended = await run_between_begin_and_commit(run, context, opened, question, offered)
    except BaseException as problem:
        run.revoke = None
        await opening.__aexit__(type(problem), problem, problem.__traceback__)
        raise
    await opening.__aexit__(None, None, None)
    run.revoke = None
    context.wakeup.notify(opened.session.new_work)
    return ended


async def run_between_begin_and_commit(
    run: Execution,
    context: ExecutionContext,
    opened: OpenedTransaction,
    question: VersionAdvance | None,
    offered: dict[str, object],
) -> JobOutcome:
    """What happens between BEGIN and COMMIT."""
    opened.restore_timeouts()
    session = opened.session
    if question is not None and not await advance_version(session, question):
        await finish_inside(session, run.leased, "stale", run.elapsed)
        return SETTLED_STALE
    await run_one_in_transaction(run.handler, opened, context.jobs, **offered)
    await finish_inside(session, run.leased, "done", run.elapsed)
    return SETTLED


async def is_current_version(runner: Runner, question: VersionAdvance) -> bool:
    """Whether no later version was applied, before a run without a transaction."""

    async def compare(session: Session) -> bool:
        return await guard.would_apply(session, question)

    try:
        return await runner.run_autocommit(compare, wait=WAIT)
    except InProgress as problem:  # somebody else has SQLite's lock
        raise NotStarted from problem


async def advance_version(session: Session, question: VersionAdvance) -> bool:
    """Whether the version is the newest; it is recorded then, in the handler's transaction."""
    try:
        return await guard.newer(session, question)
    except InProgress as problem:  # another handler works on the same resource
        raise NotStarted from problem
