"""The slots of a worker: jobs that run, jobs that are prefetched, and free slots.

A slot is free again only when the end of its job is committed; so the number of leases is bounded,
however slow the database is.
"""

from __future__ import annotations

from collections import deque
from types import MappingProxyType
from typing import TYPE_CHECKING

from duly.core.host import HOST
from duly.jobs.lease import NO_RESCUE_QUOTA, POISON_RESCUES, QueueDemand
from duly.worker.execution import Batch, gather_batch
from duly.worker.quarantine import (
    Quarantine,
    RescueTurns,
    has_isolated_job,
    rescues_of_suspects,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from duly.core.host import Host
    from duly.jobs.lease import LeasedJob, RescueQuota
    from duly.worker.execution import Execution

# Only as many jobs are prefetched as are done in so many seconds: a slow job keeps none waiting.
AHEAD = 0.25
# And not more, however fast: they would have to be rescued from a process that is killed.
MOST_AHEAD = 200
# Seconds over which the speed of a queue is measured.
MEASURED = 0.5
# Seconds after which a busy worker looks from the start again: something more urgent may have come.
FROM_THE_START = 0.5
Position = tuple[int, int | None, str | None]
FIRST: Position = (-32768, None, None)
NO_BATCHES: Mapping[str, int] = MappingProxyType({})
# A job prefetched for so many seconds is released: another worker may have time for it.
HELD_TOO_LONG = 30.0


class QueueSlots:
    """The slots of one queue."""

    def __init__(
        self, name: str, slots: int, host: Host = HOST, *, batch: int = 1, batching: bool = True
    ) -> None:
        self._host = host
        self.name = name
        self.slots = slots
        self.prefetched: deque[Execution] = deque()
        self.running: dict[str, Execution] = {}
        # The jobs of running batches, by their ids; each batch has one slot.
        self.in_batches: dict[str, Execution] = {}
        # How many jobs one slot takes: as many as the bulk handlers of the last fetch.
        self.batch = batch if batching else 1
        self.batching = batching
        # A slot is kept free for a rescued job: those are never prefetched.
        self.reserved = False
        self.rescue_turns = RescueTurns()
        self._done = 0
        self._speed = 0.0
        self._since = self._host.monotonic()
        self._position = FIRST
        self._scan_restarted_at = self._host.monotonic()

    def count_done(self, jobs: int = 1) -> None:
        """Count jobs that are done."""
        self._done += jobs
        passed = self._host.monotonic() - self._since
        if passed >= MEASURED:
            self._speed = self._done / passed
            self._done, self._since = 0, self._host.monotonic()

    @property
    def prefetch_limit(self) -> int:
        """How many jobs may be prefetched beside those that run."""
        fresh = self._done / max(self._host.monotonic() - self._since, 0.05)
        return min(max(MOST_AHEAD, self.batch), int(max(self._speed, fresh) * AHEAD))

    @property
    def free(self) -> int:
        """How many more jobs could run now."""
        return self.slots - len(self.running) - len(self.prefetched)

    def want(self, rescues: Sequence[int]) -> QueueDemand | None:
        """What to fetch, beside running jobs with these rescues; None for nothing."""
        fresh = self.free + self.prefetch_limit - self.reserved
        if self.prefetched and fresh < max(self.slots, self.prefetch_limit) // 2:
            fresh = 0  # a larger batch soon costs less than a small one now
        if self.free > self.reserved and not self.prefetched:
            fresh = max(fresh, self.batch)
        at_once = self.slots - len(self.running) - (0 if self.reserved else len(self.prefetched))
        turns = self.rescue_turns.choose_turns(at_once, rescues)
        if fresh <= 0 and not turns:
            return None
        return QueueDemand(self.name, max(fresh, 0), *self._scan_position(), turns, alone=False)

    def want_alone(self, *, only: bool) -> QueueDemand:
        """What to fetch while nothing runs: also a job that must run alone, or only that."""
        if only:
            return QueueDemand(self.name, 0, *FIRST, NO_RESCUE_QUOTA, alone=True)
        turns = self.rescue_turns.choose_turns(self.slots, ())
        fresh = max(self.slots + self.prefetch_limit, self.batch)
        return QueueDemand(self.name, fresh, *self._scan_position(), turns, alone=True)

    def _scan_position(self) -> Position:
        """Where the fetch starts: where the last batch ended, but periodically at the front."""
        if self._host.monotonic() - self._scan_restarted_at > FROM_THE_START:
            self._restart_scan()
        return self._position

    def record_batch(self, want: QueueDemand, leases: Sequence[LeasedJob]) -> None:
        """Remember where a batch ended: the next one starts there, unless this was the last."""
        if leases:
            self.batch = 1  # until one of these jobs has a bulk handler
        fresh = [leased for leased in leases if not leased.rescues]
        if len(fresh) < want.fresh:
            self._restart_scan()
        elif fresh:
            self._position = (fresh[-1].priority, fresh[-1].run_at, fresh[-1].id)

    def record_rescued_found(self, turns: RescueQuota, found: Sequence[int]) -> bool:
        """Note the rescues of the jobs found; return True if a slot was reserved for none."""
        self.rescue_turns.record_found(turns, found)
        in_vain = self.reserved and bool(turns) and not found
        if in_vain:
            self.reserved = False
        return in_vain

    def reserve_for_next_rescued(self, rescues: Sequence[int]) -> None:
        """A rescued job has ended: its slot is for the next rescued one, not for a new one."""
        self.reserved = (
            self.rescue_turns.more
            and bool(self.prefetched)
            and not self.rescue_turns.once_rescued_must_wait(rescues)
        )

    def reserve_for_due(self, rescued: int) -> None:
        """Reserve a slot for a rescued job that is due: those are never prefetched."""
        self.reserved = rescued > 0 and self.free <= 0
        self.rescue_turns.record_due(rescued)

    def _restart_scan(self) -> None:
        self._position, self._scan_restarted_at = FIRST, self._host.monotonic()

    def pop_startable(self) -> Iterator[Execution]:
        """Remove and yield the prefetched jobs that can run now, and batches of them."""
        while self.prefetched and len(self.running) < self.slots - self.reserved:
            run = self.prefetched.popleft()
            if run.joins and self.batching:
                run = gather_batch(run, self.prefetched, run.handler.many or 1)
            self.running[run.id] = run
            if isinstance(run, Batch):
                self.in_batches.update((one.id, one) for one in run.members)
            yield run

    def remove_batch(self, batch: Batch) -> None:
        """Free the slot of a batch."""
        del self.running[batch.id]
        for run in batch.members:
            del self.in_batches[run.id]


class Slots:
    """All queues of a worker."""

    def __init__(
        self,
        queues: Mapping[str, int],
        host: Host = HOST,
        *,
        batches: Mapping[str, int] = NO_BATCHES,
        batching: bool = True,
    ) -> None:
        self._host = host
        self.queues = {
            name: QueueSlots(name, slots, host, batch=batches.get(name, 1), batching=batching)
            for name, slots in queues.items()
        }
        self.quarantine = Quarantine(host)
        # Jobs with so many rescues that they may be what kills a process.
        self._suspects: set[Execution] = set()

    def __bool__(self) -> bool:
        return any(queue.prefetched or queue.running for queue in self.queues.values())

    def __contains__(self, run: Execution) -> bool:
        queue = self.queues[run.leased.queue]
        if queue.in_batches.get(run.id) is run or queue.running.get(run.id) is run:
            return True
        return run in queue.prefetched

    def wants(self) -> list[QueueDemand]:
        """What each queue has room for."""
        if not self or (self.quarantine.is_due and not self.quarantine.is_draining):
            only = self.quarantine.is_due
            return [queue.want_alone(only=only) for queue in self.queues.values()]
        if self.quarantine.is_draining or self._has_isolated_job():
            return []
        rescues = rescues_of_suspects(self.list_running())
        wants = (queue.want(rescues) for queue in self.queues.values())
        return [want for want in wants if want is not None]

    def expects_rescued(self, wants: Sequence[QueueDemand]) -> bool:
        """True if a queue has room for rescued jobs, and more of them are believed due."""
        return any(self.queues[want.queue].rescue_turns.more and want.turns for want in wants)

    def _has_isolated_job(self) -> bool:
        """True if a job runs beside which nothing may start yet."""
        return has_isolated_job(
            run
            for run in self._suspects
            if self.queues[run.leased.queue].running.get(run.id) is run
        )

    def record_batch(
        self, wants: Sequence[QueueDemand], leases: Sequence[LeasedJob], *, staged: bool
    ) -> bool:
        """Remember where each queue's batch ended, and how many rescued jobs it had.

        Returns True if a slot was reserved for one of those, and there is none.
        """
        in_vain = False
        if any(want.alone for want in wants):
            self.quarantine.end()
        for want in wants:
            of_queue = [leased for leased in leases if leased.queue == want.queue]
            self.queues[want.queue].record_batch(want, of_queue)
            if staged:
                found = [leased.rescues for leased in of_queue if leased.rescues]
                in_vain |= self.queues[want.queue].record_rescued_found(want.turns, found)
        return in_vain

    def put(self, run: Execution) -> None:
        """Prefetch a leased job; a rescued one goes to the front, for it may not wait."""
        queue = self.queues[run.leased.queue]
        held = queue.prefetched
        if run.handler.many is not None and queue.batching:
            queue.batch = max(queue.batch, run.handler.many)
        if run.leased.rescues >= POISON_RESCUES:
            self._suspects.add(run)
        if run.leased.rescues:
            queue.reserved = False
            held.appendleft(run)
        else:
            held.append(run)

    def occupy(self, run: Execution) -> None:
        """Keep a slot for a job that does not run, until its end is committed."""
        if run.leased.rescues >= POISON_RESCUES:
            self._suspects.add(run)
        self.queues[run.leased.queue].running[run.id] = run

    def pop_startable(self) -> Iterator[Execution]:
        """Remove and yield every job that can run now."""
        if self.quarantine.is_draining or self._has_isolated_job():
            return
        for queue in self.queues.values():
            yield from queue.pop_startable()

    def free_slot(self, run: Execution) -> None:
        """Free the slot of a job whose end is committed or whose lease is gone."""
        queue = self.queues[run.leased.queue]
        self._suspects.discard(run)
        if isinstance(run, Batch):
            queue.remove_batch(run)
            queue.count_done(len(run.members))
        elif queue.running.get(run.id) is run:
            del queue.running[run.id]
            queue.count_done()
            if run.leased.rescues:
                queue.reserve_for_next_rescued(rescues_of_suspects(self.list_running()))

    def list_running(self) -> list[Execution]:
        """Every run, of a job or a batch, also those that wait for the commit of their end."""
        return [run for queue in self.queues.values() for run in list(queue.running.values())]

    def list_leased(self) -> list[Execution]:
        """Every job that is leased."""
        running = [one for run in self.list_running() for one in run.members]
        return running + [run for queue in self.queues.values() for run in list(queue.prefetched)]

    def drop(self, run: Execution) -> None:
        """Remove a run without an end of its own: it never started, or was rolled back."""
        queue = self.queues[run.leased.queue]
        self._suspects.discard(run)
        if isinstance(run, Batch):
            queue.remove_batch(run)
            return
        queue.running.pop(run.id, None)
        if run in queue.prefetched:
            queue.prefetched.remove(run)

    def put_back(self, queue: str, runs: Sequence[Execution]) -> None:
        """Let the jobs of a batch wait for slots of their own, before all others."""
        self.queues[queue].prefetched.extendleft(reversed(runs))

    def pop_prefetched(self, longer_than: float = 0.0) -> list[Execution]:
        """Remove and return the jobs that were prefetched for so many seconds."""
        now = self._host.monotonic()
        taken: list[Execution] = []
        for queue in self.queues.values():
            old = [run for run in queue.prefetched if now - run.held_since >= longer_than]
            for run in old:
                queue.prefetched.remove(run)
            taken += old
        return taken
