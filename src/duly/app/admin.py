"""``app.jobs`` and ``app.outbox``: what an operator does with jobs and messages.

Each verb has one body, in the async class. The sync class hands it a runner that never waits, and
finishes it in one step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.app.options import JobFilters, MessageFilters
from duly.core.exports import show_keywords
from duly.core.onestep import finish
from duly.core.validation import checked_count
from duly.jobs import dead as dead_jobs
from duly.jobs.dead import plan_of
from duly.jobs.resolve import finding_of, resolve
from duly.jobs.stats import count_jobs
from duly.jobs.tx import refuse_inside
from duly.ledger.dead_filters import MOST_SHOWN, SHOWN, checked_id
from duly.ledger.replay import replay
from duly.outbox import dead as dead_messages
from duly.outbox.stats import count_messages

if TYPE_CHECKING:
    from typing import Unpack

    from duly.core.json_bytes import Storable
    from duly.core.session import Runner
    from duly.jobs.dead import DeadLetter
    from duly.jobs.stats import Stats
    from duly.ledger.replay import Replayed
    from duly.outbox.dead import DeadMessage, OutboxMessage
    from duly.outbox.stats import OutboxStats
    from duly.service.wakeup import Wakeup
    from duly.stores.orm.begin import Begin

INSTEAD = "call it outside of the handler, or in a job without tx"


class JobAdmin:
    """``app.jobs``: dead jobs, replay, and counts."""

    def __init__(self, runner: Runner, wakeup: Wakeup, begin: Begin | None) -> None:
        self._awaited = AsyncJobAdmin(runner, wakeup, begin, "app.jobs")

    @show_keywords(JobFilters)
    def dead(
        self, job_id: str | None = None, *, limit: int = SHOWN, **filters: Unpack[JobFilters]
    ) -> list[DeadLetter]:
        """List dead jobs, the latest first, each with its last error.

        Args:
            job_id: only this job.
            limit: how many at most.
            **filters: ``source`` and ``type``, of the event that the job handles; ``name``, of its
                handler; ``since`` (that time or later) and ``until`` (before that time), when it
                died.
        """
        return finish(self._awaited.dead(job_id, limit=limit, **filters))

    @show_keywords(JobFilters)
    def replay(
        self,
        job_id: str | None = None,
        *,
        all: bool = False,
        dry_run: bool = False,
        rate: float | None = None,
        **filters: Unpack[JobFilters],
    ) -> Replayed:
        """Make dead jobs ready again, with all their attempts before them.

        Each is replayed once, however many callers ask at the same time: a job that is not dead
        any more is left alone, and is not in the answer.

        Args:
            job_id: one job; or choose by the filters of `dead`.
            all: every dead job there is.
            dry_run: only say which.
            rate: how many may run in a second: the times are written with the jobs.
            **filters: as in `dead`.
        """
        return finish(self._awaited.replay(job_id, all=all, dry_run=dry_run, rate=rate, **filters))

    def discard(self, job_id: str) -> bool:
        """Delete a dead job for good; the history remembers that. False where it is not dead."""
        return finish(self._awaited.discard(job_id))

    def resolve(self, job_id: str, effect: str, *, done: bool, result: Storable = None) -> None:
        """Settle an effect of which it is unknown whether it happened, after you found out.

        Args:
            job_id: the job, dead or ready.
            effect: the name that ``job.effect`` was called with.
            done: whether it happened. If it did, the next run gets ``result`` without a call; if
                not, the next run makes the call.
            result: what the call returned, or would have.
        """
        finish(self._awaited.resolve(job_id, effect, done=done, result=result))

    def stats(self) -> Stats:
        """Count the jobs of each queue that are ready, waiting, leased and dead; list workers."""
        return finish(self._awaited.stats())


class AsyncJobAdmin:
    """``app.aio.jobs``: the verbs of `JobAdmin`, awaited."""

    def __init__(
        self,
        runner: Runner,
        wakeup: Wakeup,
        begin: Begin | None,
        path: str = "app.aio.jobs",
    ) -> None:
        self._runner = runner
        self._begin = begin
        self._wakeup = wakeup
        # How the caller reaches these verbs, for what an error says.
        self._path = path

    @show_keywords(JobFilters)
    async def dead(
        self, job_id: str | None = None, *, limit: int = SHOWN, **filters: Unpack[JobFilters]
    ) -> list[DeadLetter]:
        """`JobAdmin.dead`, awaited."""
        which = dead_jobs.job_selection(job_id, **filters)
        return await dead_jobs.list_dead(self._runner, which, checked_limit(limit))

    @show_keywords(JobFilters)
    async def replay(
        self,
        job_id: str | None = None,
        *,
        all: bool = False,
        dry_run: bool = False,
        rate: float | None = None,
        **filters: Unpack[JobFilters],
    ) -> Replayed:
        """`JobAdmin.replay`, awaited."""
        which = dead_jobs.job_selection(job_id, **filters)
        plan = plan_of(which, rate, dry_run=dry_run, everything=all)
        refuse_joined(f"{self._path}.replay", self._begin)
        done = await replay(self._runner, plan)
        self._wakeup.notify(("jobs",))
        return done

    async def discard(self, job_id: str) -> bool:
        """`JobAdmin.discard`, awaited."""
        job = checked_id(job_id)
        refuse_joined(f"{self._path}.discard", self._begin)
        return await dead_jobs.discard_dead(self._runner, job)

    async def resolve(
        self, job_id: str, effect: str, *, done: bool, result: Storable = None
    ) -> None:
        """`JobAdmin.resolve`, awaited."""
        finding = finding_of(checked_id(job_id), effect, done=done, result=result)
        refuse_joined(f"{self._path}.resolve", self._begin)
        await resolve(self._runner, finding)

    async def stats(self) -> Stats:
        """`JobAdmin.stats`, awaited."""
        return await count_jobs(self._runner)


class OutboxAdmin:
    """``app.outbox``: messages that are not sent yet, dead messages, replay, and counts."""

    def __init__(self, runner: Runner, wakeup: Wakeup, begin: Begin | None) -> None:
        self._awaited = AsyncOutboxAdmin(runner, wakeup, begin, "app.outbox")

    @show_keywords(MessageFilters)
    def dead(
        self,
        message_id: str | None = None,
        *,
        limit: int = SHOWN,
        **filters: Unpack[MessageFilters],
    ) -> list[DeadMessage]:
        """List dead messages, the latest first, each with its last error.

        Args:
            message_id: only this one.
            limit: how many at most.
            **filters: ``destination``, an origin (``https://example.com``; of a URL, its origin)
                or a transport; ``since`` (that time or later) and ``until`` (before that time),
                when it died.
        """
        return finish(self._awaited.dead(message_id, limit=limit, **filters))

    @show_keywords(MessageFilters)
    def replay(
        self,
        message_id: str | None = None,
        *,
        all: bool = False,
        dry_run: bool = False,
        rate: float | None = None,
        **filters: Unpack[MessageFilters],
    ) -> Replayed:
        """Make dead messages ready again, with all their attempts before them; ids and keys stay.

        Each is replayed once, however many callers ask at the same time.

        Args:
            message_id: one message; or choose by the filters of `dead`.
            all: every dead message there is.
            dry_run: only say which.
            rate: how many may be sent in a second: the times are written with the messages.
            **filters: as in `dead`.
        """
        return finish(
            self._awaited.replay(message_id, all=all, dry_run=dry_run, rate=rate, **filters)
        )

    def find(self, message_id: str) -> OutboxMessage | None:
        """A message that is not sent yet, with its state and last error; None if it has left."""
        return finish(self._awaited.find(message_id))

    def discard(self, message_id: str) -> bool:
        """Delete a dead message for good; the history remembers that. False where it is not."""
        return finish(self._awaited.discard(message_id))

    def stats(self) -> OutboxStats:
        """Count the messages of each destination that are ready, waiting, leased and dead."""
        return finish(self._awaited.stats())


class AsyncOutboxAdmin:
    """``app.aio.outbox``: the verbs of `OutboxAdmin`, awaited."""

    def __init__(
        self,
        runner: Runner,
        wakeup: Wakeup,
        begin: Begin | None,
        path: str = "app.aio.outbox",
    ) -> None:
        self._runner = runner
        self._begin = begin
        self._wakeup = wakeup
        self._path = path

    @show_keywords(MessageFilters)
    async def dead(
        self,
        message_id: str | None = None,
        *,
        limit: int = SHOWN,
        **filters: Unpack[MessageFilters],
    ) -> list[DeadMessage]:
        """`OutboxAdmin.dead`, awaited."""
        which = dead_messages.message_selection(message_id, **filters)
        return await dead_messages.list_dead(self._runner, which, checked_limit(limit))

    @show_keywords(MessageFilters)
    async def replay(
        self,
        message_id: str | None = None,
        *,
        all: bool = False,
        dry_run: bool = False,
        rate: float | None = None,
        **filters: Unpack[MessageFilters],
    ) -> Replayed:
        """`OutboxAdmin.replay`, awaited."""
        which = dead_messages.message_selection(message_id, **filters)
        plan = dead_messages.plan_of(which, rate, dry_run=dry_run, everything=all)
        refuse_joined(f"{self._path}.replay", self._begin)
        done = await replay(self._runner, plan)
        self._wakeup.notify(("messages",))
        return done

    async def find(self, message_id: str) -> OutboxMessage | None:
        """`OutboxAdmin.find`, awaited."""
        return await dead_messages.find_message(self._runner, checked_id(message_id, "message"))

    async def discard(self, message_id: str) -> bool:
        """`OutboxAdmin.discard`, awaited."""
        message = checked_id(message_id, "message")
        refuse_joined(f"{self._path}.discard", self._begin)
        return await dead_messages.discard_dead(self._runner, message)

    async def stats(self) -> OutboxStats:
        """`OutboxAdmin.stats`, awaited."""
        return await count_messages(self._runner)


def refuse_joined(verb: str, begin: Begin | None) -> None:
    """Refuse a verb that commits by itself inside a transaction of a handler or of the caller."""
    refuse_inside(verb, INSTEAD)
    if begin is not None:
        begin.refuse_surrounding(verb)


def checked_limit(limit: object) -> int:
    """How many rows to list."""
    return checked_count("limit", limit, most=MOST_SHOWN)
