"""The verbs of `Duly` about dead letters and what is counted, for code that blocks and awaited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.core.onestep import finish
from duly.core.validation import checked_count
from duly.jobs.dead import discard_dead, job_selection, list_dead
from duly.jobs.replay import plan_of
from duly.jobs.resolve import finding_of, resolve
from duly.jobs.stats import count_jobs
from duly.jobs.tx_guard import refuse_inside
from duly.ledger.dead_filters import MOST_SHOWN, SHOWN, checked_id
from duly.ledger.replay import replay

if TYPE_CHECKING:
    from datetime import datetime

    from duly.core.json_bytes import Storable
    from duly.jobs.dead import DeadLetter
    from duly.jobs.resolve import EffectFinding
    from duly.jobs.stats import Stats
    from duly.ledger.replay import Replayed
    from duly.service.wakeup import Wakeup
    from duly.stores.store import Store

INSTEAD = "call it outside of the handler, or in a job without tx"


class DeadVerbs:
    """What `Duly` does about jobs that were given up."""

    store: Store
    wakeup: Wakeup

    def dead(
        self,
        job_id: str | None = None,
        *,
        source: str | None = None,
        type: str | None = None,
        name: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = SHOWN,
    ) -> list[DeadLetter]:
        """Dead letters, the latest first: jobs that were given up, with their last error.

        Args:
            job_id: only this job.
            source: only jobs for events of this source.
            type: only jobs for events of this type.
            name: only jobs of the handler of this name.
            since: only those that were given up then or later.
            until: only those that were given up before.
            limit: how many at most.
        """
        which = job_selection(job_id, source=source, type=type, name=name, since=since, until=until)
        return finish(list_dead(self.store.blocking, which, checked_limit(limit)))

    def replay(
        self,
        job_id: str | None = None,
        *,
        source: str | None = None,
        type: str | None = None,
        name: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        all: bool = False,
        dry_run: bool = False,
        rate: float | None = None,
    ) -> Replayed:
        """Make dead jobs ready again, with all their attempts before them.

        Each is replayed once, however many callers ask at the same time: a job that is not dead
        any more is left alone, and is not in the answer.

        Args:
            job_id: one job; or choose by what follows.
            source: jobs for events of this source.
            type: jobs for events of this type.
            name: jobs of the handler of this name.
            since: those that were given up then or later.
            until: those that were given up before.
            all: every dead letter there is.
            dry_run: only say which.
            rate: how many may run in a second: the times are written with the jobs.
        """
        which = job_selection(job_id, source=source, type=type, name=name, since=since, until=until)
        plan = plan_of(which, rate, dry_run=dry_run, everything=all)
        refuse_inside("app.replay", INSTEAD)
        done = finish(replay(self.store.blocking, plan))
        self.wakeup.notify(("jobs",))
        return done

    def discard(self, job_id: str) -> bool:
        """Delete a dead job for good; the history remembers that. False where it is not dead."""
        job = job_to_discard(job_id)
        return finish(discard_dead(self.store.blocking, job))

    def resolve(self, job_id: str, effect: str, *, done: bool, result: Storable = None) -> None:
        """Settle an effect of which nobody knew whether it happened, after you found out.

        Args:
            job_id: the job, dead or ready.
            effect: the name that ``job.effect`` was called with.
            done: whether it happened. If it did, the next run gets ``result`` without a call; if
                not, the next run makes the call.
            result: what the call returned, or would have.
        """
        finding = finding_to_record(job_id, effect, done=done, result=result)
        finish(resolve(self.store.blocking, finding))

    def stats(self) -> Stats:
        """How many jobs are ready, waiting, leased and dead, in each queue, and who works."""
        return finish(count_jobs(self.store.blocking))


class AsyncDeadVerbs:
    """The same verbs awaited."""

    def __init__(self, app: DeadVerbs) -> None:
        self._letters_of = app

    async def dead(
        self,
        job_id: str | None = None,
        *,
        source: str | None = None,
        type: str | None = None,
        name: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = SHOWN,
    ) -> list[DeadLetter]:
        """Dead letters, the latest first: jobs that were given up, with their last error."""
        which = job_selection(job_id, source=source, type=type, name=name, since=since, until=until)
        return await list_dead(self._letters_of.store.awaited, which, checked_limit(limit))

    async def replay(
        self,
        job_id: str | None = None,
        *,
        source: str | None = None,
        type: str | None = None,
        name: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        all: bool = False,
        dry_run: bool = False,
        rate: float | None = None,
    ) -> Replayed:
        """Make dead jobs ready again, with all their attempts before them."""
        which = job_selection(job_id, source=source, type=type, name=name, since=since, until=until)
        plan = plan_of(which, rate, dry_run=dry_run, everything=all)
        refuse_inside("app.aio.replay", INSTEAD)
        done = await replay(self._letters_of.store.awaited, plan)
        self._letters_of.wakeup.notify(("jobs",))
        return done

    async def discard(self, job_id: str) -> bool:
        """Delete a dead job for good; the history remembers that. False where it is not dead."""
        job = job_to_discard(job_id)
        return await discard_dead(self._letters_of.store.awaited, job)

    async def resolve(
        self, job_id: str, effect: str, *, done: bool, result: Storable = None
    ) -> None:
        """Settle an effect of which nobody knew whether it happened, after you found out."""
        finding = finding_to_record(job_id, effect, done=done, result=result)
        await resolve(self._letters_of.store.awaited, finding)

    async def stats(self) -> Stats:
        """How many jobs are ready, waiting, leased and dead, in each queue, and who works."""
        return await count_jobs(self._letters_of.store.awaited)


def checked_limit(limit: object) -> int:
    """How many letters to show."""
    return checked_count("limit", limit, most=MOST_SHOWN)


def job_to_discard(job_id: object) -> str:
    """The job to discard, where that may be done."""
    job = checked_id(job_id)
    refuse_inside("app.discard", INSTEAD)
    return job


def finding_to_record(
    job_id: object, effect: object, *, done: object, result: object
) -> EffectFinding:
    """What to write, where that may be done."""
    finding = finding_of(checked_id(job_id), effect, done=done, result=result)
    refuse_inside("app.resolve", INSTEAD)
    return finding
