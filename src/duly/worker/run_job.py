"""One run of a job, or of a batch, from its first statement to the outcome that is written.

One body serves sync and async handlers: a sync one gets runners that never wait.
"""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from duly.core.defaults import WAIT
from duly.core.errors import InProgress, StoreUnavailable, UsageError
from duly.core.failures import exception_record
from duly.core.host import HOST, Deadline, Host
from duly.core.retry import RESCUE_BACKOFF, Backoff
from duly.core.session import host_time
from duly.jobs.invoke import HandlerFailed, call_handler, run_one_in_transaction
from duly.jobs.job import AsyncJob, Job
from duly.jobs.lease import (
    JobSettlement,
    finish_batch_inside,
    finish_inside,
    lease_lost_error,
)
from duly.jobs.order import version_of_event, version_of_payload
from duly.jobs.outcome import (
    ALONE,
    DONE,
    SETTLED,
    SETTLED_STALE,
    STALE,
    JobOutcome,
    RunContext,
    outcome_of_run,
)
from duly.ledger import order_guard
from duly.worker.execution import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from duly.core.clock import Clock
    from duly.core.session import OpenedTransaction, Runner, Session
    from duly.http_client.job_clients import JobClients
    from duly.jobs.registry import Registries
    from duly.ledger.arguments import VersionAdvance
    from duly.service.wakeup import Wakeup
    from duly.worker.execution import Execution

# How long a job waits that found the database busy before it had begun.
BUSY = timedelta(seconds=1) // timedelta(microseconds=1)
# The parameters for which a handler's job is made.
JOB_PARAMETERS = frozenset(("job", "jobs"))


class JobTransactionOpener(Protocol):
    """Opens the transactions of handlers: a store, or the user's ORM."""

    def open_transaction(
        self, *, wait: timedelta, lasting: timedelta | None = None
    ) -> AbstractAsyncContextManager[OpenedTransaction]:
        """A transaction, committed at the end of the block and rolled back on any error."""


class ExecutionContext(NamedTuple):
    """What the runs of sync handlers have in common, or those of async ones."""

    runner: Runner
    opener: JobTransactionOpener
    registries: Registries
    clock: Clock | None
    secrets: Sequence[str]
    callers: JobClients
    wakeup: Wakeup
    # Around each sync run: an ORM may keep a connection for each thread.
    renew_connections: Callable[[], AbstractContextManager[None]] = nullcontext
    host: Host = HOST
    rescue_backoff: Backoff = RESCUE_BACKOFF

    def circumstances(self, run: Execution) -> RunContext:
        """What a decision about an end needs to know; the time is the database's."""
        passed = int((self.host.monotonic() - run.leased_at) * 1_000_000)
        now = run.leased.taken_at + passed if self.clock is None else host_time(self.clock)
        return RunContext(now, self.host.random.random(), self.secrets, self.rescue_backoff)


class NotStarted(Exception):
    """The database was busy before the handler was called."""


async def execute_job(run: Execution, context: ExecutionContext) -> JobOutcome:
    """Run the handler and return its outcome. Cancellation passes through."""
    try:
        with context.renew_connections():
            if isinstance(run, Batch):
                return await run_in_transaction(run, context, None)
            return await run_attempt(run, context)
    except NotStarted:
        return JobOutcome("again", delay=int(BUSY * context.host.random.random()))
    except HandlerFailed as failure:
        problem = failure.__cause__ or failure
    except (Exception, SystemExit) as failure:  # sys.exit() in a handler ends no worker
        problem = failure
    try:
        return outcome_of_error(run, problem, context)
    finally:
        # Its traceback holds this frame, and this frame holds it: a cycle that keeps all that the
        # handler left open until the next collection.
        del problem


def outcome_of_error(
    run: Execution, problem: BaseException, context: ExecutionContext
) -> JobOutcome:
    """The outcome of a run that failed; after any error in a batch its jobs run alone."""
    if isinstance(run, Batch):
        run.error = exception_record(problem, 1, context.secrets)
        return ALONE
    return outcome_of_run(run.leased, run.handler, problem, context.circumstances(run))


async def run_attempt(run: Execution, context: ExecutionContext) -> JobOutcome:
    """Run the handler with what it declares: refetch, order, a transaction."""
    handler, event = run.handler, run.event
    run.handler_started_at = started = context.host.monotonic()
    if handler.refetch is not None:
        event = replace(event, current=await call_refetch(handler.refetch, event, handler.mode))
    version = None
    if handler.order is not None and event is not None:
        version = version_of_event(handler.order, handler.name, run.leased.scope, event)
    elif handler.order is not None:
        version = version_of_payload(handler.order, handler.name, run.leased)
    job = None if handler.wants.isdisjoint(JOB_PARAMETERS) else job_of(run, context, started)
    if "tx" in handler.wants:
        run.handler_started_at = None
        return await run_in_transaction(run, context, version, event=event, job=job, jobs=[job])
    if version is not None and not await is_current_version(context.runner, version):
        return STALE
    await call_handler(handler, event=event, job=job)
    if job is not None:
        job.refuse_unkept()
    return DONE if version is None else DONE._replace(version=version)


def job_of(run: Execution, context: ExecutionContext, started: float) -> AsyncJob | Job:
    """The job as its handler sees it, with the deadline of this run."""
    handler, event = run.handler, run.event
    deadline = Deadline(context.host.monotonic, started + handler.timeout / 1_000_000)
    known = run.leased, handler.name, None if event is None else event.id, context.runner
    if handler.mode == "async":
        return AsyncJob(*known, context.callers.async_client, deadline=deadline)
    return Job(*known, context.callers.client, deadline=deadline)


async def call_refetch(refetch: Any, event: Any, mode: str) -> Any:
    """Call ``refetch=``, outside of any transaction."""
    answer = refetch(event)
    if mode == "async" and inspect.isawaitable(answer):
        return await answer
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()  # or Python complains that it was never awaited
        raise UsageError("refetch= of a sync handler must not be awaited: write `def`")
    return answer


async def run_in_transaction(
    run: Execution, context: ExecutionContext, version: VersionAdvance | None, **offered: object
) -> JobOutcome:
    """Run the handler, and end its lease, or those of its batch, in the same COMMIT."""
    lasting = timedelta(microseconds=run.handler.timeout)
    opening = context.opener.open_transaction(wait=WAIT, lasting=lasting)
    try:
        opened = await opening.__aenter__()
    except (InProgress, StoreUnavailable) as problem:
        raise NotStarted from problem
    # The wait for a connection, or for SQLite's lock, has its own bound and is not the handler's.
    run.handler_started_at = context.host.monotonic()
    try:
        if run.ended is not None:  # its lease was lost while it waited for a connection
            raise lease_lost_error(run.leased)
        run.revoke = opened.revoke
        opened.restore_timeouts()
        ended = SETTLED
        if isinstance(run, Batch):
            await run_members(run, context, opened)
        else:
            if version is not None and not await advance_version(opened.session, version):
                ended = SETTLED_STALE
            else:
                await run_one_in_transaction(run.handler, opened, context.registries, **offered)
            await finish_inside(opened.session, run.leased, ended.outcome, run.elapsed)
    except BaseException as problem:
        run.revoke = None
        await opening.__aexit__(type(problem), problem, problem.__traceback__)
        raise
    await opening.__aexit__(None, None, None)
    run.revoke = None
    context.wakeup.notify(opened.session.new_work)
    return ended


async def run_members(batch: Batch, context: ExecutionContext, opened: OpenedTransaction) -> None:
    """Run the handler of a batch in its transaction, and end every lease, or raise."""
    await find_stale(batch, opened.session)
    fresh = [one for one in batch.members if one not in batch.stale]
    if fresh:
        started = context.host.monotonic()
        jobs = [job_of(one, context, started) for one in fresh]
        await run_one_in_transaction(batch.handler, opened, context.registries, jobs=jobs)
    ran = batch.elapsed
    ends = [
        JobSettlement(one.leased.lease, STALE if one in batch.stale else DONE, ran)
        for one in batch.members
    ]
    lost = await finish_batch_inside(opened.session, ends)
    if lost:
        batch.lost.update(one for one in batch.members if one.id in lost)
        raise lease_lost_error(next(one.leased for one in batch.members if one.id in lost))


async def find_stale(batch: Batch, session: Session) -> None:
    """Record the versions of a batch, and find the jobs that a later one made stale.

    In the order of the resources, so that no two batches lock each other out.
    """
    versions = [(one.version, one) for one in batch.members if one.version is not None]
    for version, one in sorted(versions, key=lambda pair: pair[0].resource.digest):
        if not await order_guard.newer(session, version):
            batch.stale.add(one)


async def is_current_version(runner: Runner, version: VersionAdvance) -> bool:
    """Return True if no later version was applied; asked before a run without a transaction."""

    async def compare(session: Session) -> bool:
        return await order_guard.would_apply(session, version)

    try:
        return await runner.run_autocommit(compare, wait=WAIT)
    except InProgress as problem:  # another process has SQLite's lock
        raise NotStarted from problem


async def advance_version(session: Session, version: VersionAdvance) -> bool:
    """Record the version in the handler's transaction; return False if it is not the newest."""
    try:
        return await order_guard.newer(session, version)
    except InProgress as problem:  # another handler works on the same resource
        raise NotStarted from problem
