"""What a worker has on its desk: jobs that run, jobs that are held for a moment, and free slots.

A slot is free again only when the end of its job is committed; so the number of leases is bounded,
whatever the database does.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from duly.core.host import HOST
from duly.jobs.lease import NO_RESCUE_QUOTA, POISON_RESCUES, QueueDemand
from duly.worker.quarantine import Quarantine, has_isolated_job, rescues_of_suspects
from duly.worker.rescue_turns import RescueTurns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from duly.core.host import Host
    from duly.jobs.lease import LeasedJob, RescueQuota
    from duly.worker.execution import Execution

# Jobs are held ahead only as many as are done in so many seconds: a slow job keeps none waiting.
AHEAD = 0.25
# And not more, however fast: they would have to come back from a process that is killed.
MOST_AHEAD = 200
# Seconds over which the speed of a queue is measured.
MEASURED = 0.5
# Seconds after which a busy worker looks from the start again: something more urgent may have come.
FROM_THE_START = 0.5
Position = tuple[int, int | None, str | None]
FIRST: Position = (-32768, None, None)
# One that was held for so many seconds is given back: others may have time for it.
HELD_TOO_LONG = 30.0


class QueueSlots:
    """The part of the desk that one queue has."""

    def __init__(self, name: str, slots: int, host: Host = HOST) -> None:
        self._host = host
        self.name = name
        self.slots = slots
        self.prefetched: deque[Execution] = deque()
        self.running: dict[str, Execution] = {}
        # Kept free for a job that comes back from a lost worker: it is never held.
        self.reserved = False
        self.rescue_turns = RescueTurns()
        self._done = 0
        self._speed = 0.0
        self._since = self._host.monotonic()
        self._position = FIRST
        self._scan_restarted_at = self._host.monotonic()

    def count_done(self) -> None:
        """One more is done."""
        self._done += 1
        passed = self._host.monotonic() - self._since
        if passed >= MEASURED:
            self._speed = self._done / passed
            self._done, self._since = 0, self._host.monotonic()

    @property
    def prefetch_limit(self) -> int:
        """How many jobs may be held beside those that run."""
        fresh = self._done / max(self._host.monotonic() - self._since, 0.05)
        return min(MOST_AHEAD, int(max(self._speed, fresh) * AHEAD))

    @property
    def free(self) -> int:
        """How many more could run now."""
        return self.slots - len(self.running) - len(self.prefetched)

    def want(self, rescues: Sequence[int]) -> QueueDemand | None:
        """What to ask the database for, beside running jobs that came back so often."""
        fresh = self.free + self.prefetch_limit - self.reserved
        if self.prefetched and fresh < max(self.slots, self.prefetch_limit) // 2:
            fresh = 0  # a larger batch soon costs less than a small one now
        at_once = self.slots - len(self.running) - (0 if self.reserved else len(self.prefetched))
        turns = self.rescue_turns.choose_turns(at_once, rescues)
        if fresh <= 0 and not turns:
            return None
        return QueueDemand(self.name, max(fresh, 0), *self._scan_position(), turns, alone=False)

    def want_alone(self, *, only: bool) -> QueueDemand:
        """While nothing runs: also a job that must run with nothing beside it, or only that."""
        if only:
            return QueueDemand(self.name, 0, *FIRST, NO_RESCUE_QUOTA, alone=True)
        turns, fresh = (
            self.rescue_turns.choose_turns(self.slots, ()),
            self.slots + self.prefetch_limit,
        )
        return QueueDemand(self.name, fresh, *self._scan_position(), turns, alone=True)

    def _scan_position(self) -> Position:
        """Where to begin to look: where the last batch ended, but now and then at the start."""
        if self._host.monotonic() - self._scan_restarted_at > FROM_THE_START:
            self._restart_scan()
        return self._position

    def record_batch(self, want: QueueDemand, leases: Sequence[LeasedJob]) -> None:
        """Remember where a batch ended: the next one begins there, unless this was the last."""
        fresh = [leased for leased in leases if not leased.rescues]
        if len(fresh) < want.fresh:
            self._restart_scan()
        elif fresh:
            self._position = (fresh[-1].priority, fresh[-1].run_at, fresh[-1].id)

    def record_rescued_found(self, turns: RescueQuota, found: Sequence[int]) -> bool:
        """Hear how often those came back that were found; whether a slot was kept for nothing."""
        self.rescue_turns.record_found(turns, found)
        in_vain = self.reserved and bool(turns) and not found
        if in_vain:
            self.reserved = False
        return in_vain

    def reserve_for_next_rescued(self, rescues: Sequence[int]) -> None:
        """One that came back has ended: its slot is for the next that did, not for a fresh one."""
        self.reserved = (
            self.rescue_turns.more
            and bool(self.prefetched)
            and not self.rescue_turns.once_rescued_must_wait(rescues)
        )

    def reserve_for_due(self, rescued: int) -> None:
        """Hear how often one came back that is due; it is never held, and needs a free slot."""
        self.reserved = rescued > 0 and self.free <= 0
        self.rescue_turns.record_due(rescued)

    def _restart_scan(self) -> None:
        self._position, self._scan_restarted_at = FIRST, self._host.monotonic()

    def pop_startable(self) -> Iterator[Execution]:
        """Those that are held and can run now, taken off the pile."""
        while self.prefetched and len(self.running) < self.slots - self.reserved:
            run = self.prefetched.popleft()
            self.running[run.id] = run
            yield run


class Slots:
    """All queues of a worker."""

    def __init__(self, queues: Mapping[str, int], host: Host = HOST) -> None:
        self._host = host
        self.queues = {name: QueueSlots(name, slots, host) for name, slots in queues.items()}
        self.quarantine = Quarantine(host)
        # Those that came back so often that they may well be what kills a process.
        self._suspects: set[Execution] = set()

    def __bool__(self) -> bool:
        return any(queue.prefetched or queue.running for queue in self.queues.values())

    def __contains__(self, run: Execution) -> bool:
        queue = self.queues[run.leased.queue]
        return queue.running.get(run.id) is run or run in queue.prefetched

    def wants(self) -> list[QueueDemand]:
        """What each queue would take."""
        if not self or (self.quarantine.is_due and not self.quarantine.is_draining):
            only = self.quarantine.is_due
            return [queue.want_alone(only=only) for queue in self.queues.values()]
        if self.quarantine.is_draining or self._has_isolated_job():
            return []
        rescues = rescues_of_suspects(self.list_running())
        wants = (queue.want(rescues) for queue in self.queues.values())
        return [want for want in wants if want is not None]

    def expects_rescued(self, wants: Sequence[QueueDemand]) -> bool:
        """Whether it could take some now that came back, and more of them are believed due."""
        return any(want.turns and self.queues[want.queue].rescue_turns.more for want in wants)

    def _has_isolated_job(self) -> bool:
        """Whether a job runs beside which nothing else may begin yet."""
        return has_isolated_job(
            run
            for run in self._suspects
            if self.queues[run.leased.queue].running.get(run.id) is run
        )

    def record_batch(
        self, wants: Sequence[QueueDemand], leases: Sequence[LeasedJob], *, staged: bool
    ) -> bool:
        """Remember where each queue's batch ended, and what was found of those that came back.

        Returns whether a slot was kept free for one of those, and there is none.
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
        """A job was leased: in front if it came back from a lost worker, which may not wait."""
        held = self.queues[run.leased.queue].prefetched
        if run.leased.rescues >= POISON_RESCUES:
            self._suspects.add(run)
        if run.leased.rescues:
            self.queues[run.leased.queue].reserved = False
            held.appendleft(run)
        else:
            held.append(run)

    def occupy(self, run: Execution) -> None:
        """Keep a slot for a job that does not run, until its end is committed."""
        if run.leased.rescues >= POISON_RESCUES:
            self._suspects.add(run)
        self.queues[run.leased.queue].running[run.id] = run

    def pop_startable(self) -> Iterator[Execution]:
        """Every job that can run now."""
        if self.quarantine.is_draining or self._has_isolated_job():
            return
        for queue in self.queues.values():
            yield from queue.pop_startable()

    def free_slot(self, run: Execution) -> None:
        """The end of a job is committed, or its lease is gone: its slot is free."""
        queue = self.queues[run.leased.queue]
        self._suspects.discard(run)
        if queue.running.get(run.id) is run:
            del queue.running[run.id]
            queue.count_done()
            if run.leased.rescues:
                queue.reserve_for_next_rescued(rescues_of_suspects(self.list_running()))

    def list_running(self) -> list[Execution]:
        """Every job that runs, or waits for the commit of its end."""
        return [run for queue in self.queues.values() for run in list(queue.running.values())]

    def list_leased(self) -> list[Execution]:
        """Every job that is leased."""
        return self.list_running() + [
            run for queue in self.queues.values() for run in list(queue.prefetched)
        ]

    def drop(self, run: Execution) -> None:
        """It never began, and somebody else has it."""
        queue = self.queues[run.leased.queue]
        self._suspects.discard(run)
        queue.running.pop(run.id, None)
        if run in queue.prefetched:
            queue.prefetched.remove(run)

    def pop_prefetched(self, longer_than: float = 0.0) -> list[Execution]:
        """Those that were held for so many seconds and never began, taken off the pile."""
        now = self._host.monotonic()
        taken: list[Execution] = []
        for queue in self.queues.values():
            old = [run for run in queue.prefetched if now - run.leased_at >= longer_than]
            for run in old:
                queue.prefetched.remove(run)
            taken += old
        return taken
