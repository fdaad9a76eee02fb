"""What a worker has on its desk: jobs that run, jobs that are held for a moment, and free slots.

A slot is free again only when the end of its job is committed; so the number of leases is bounded,
whatever the database does.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from duly.jobs.lease import GRAVE, NO_TURNS, Want
from duly.worker.quarantine import Clearing, lonely, suspected
from duly.worker.rescue_turns import WhoseTurn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from duly.jobs.lease import Leased, Turns
    from duly.worker.execution import Run

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


class Queue:
    """The part of the desk that one queue has."""

    def __init__(self, name: str, slots: int) -> None:
        self.name = name
        self.slots = slots
        self.held: deque[Run] = deque()
        self.running: dict[str, Run] = {}
        # Kept free for a job that comes back from a lost worker: it is never held.
        self.reserved = False
        self.turn = WhoseTurn()
        self._done = 0
        self._speed = 0.0
        self._since = time.monotonic()
        self._position = FIRST
        self._looked = time.monotonic()

    def count(self) -> None:
        """One more is done."""
        self._done += 1
        passed = time.monotonic() - self._since
        if passed >= MEASURED:
            self._speed = self._done / passed
            self._done, self._since = 0, time.monotonic()

    @property
    def ahead(self) -> int:
        """How many jobs may be held beside those that run."""
        fresh = self._done / max(time.monotonic() - self._since, 0.05)
        return min(MOST_AHEAD, int(max(self._speed, fresh) * AHEAD))

    @property
    def free(self) -> int:
        """How many more could run now."""
        return self.slots - len(self.running) - len(self.held)

    def want(self, rescues: Sequence[int]) -> Want | None:
        """What to ask the database for, beside running jobs that came back so often."""
        fresh = self.free + self.ahead - self.reserved
        if self.held and fresh < max(self.slots, self.ahead) // 2:
            fresh = 0  # a larger batch soon costs less than a small one now
        at_once = self.slots - len(self.running) - (0 if self.reserved else len(self.held))
        turns = self.turn.wanted(at_once, rescues)
        if fresh <= 0 and not turns:
            return None
        return Want(self.name, max(fresh, 0), *self._place(), turns, alone=False)

    def want_alone(self, *, only: bool) -> Want:
        """While nothing runs: also a job that must run with nothing beside it, or only that."""
        if only:
            return Want(self.name, 0, *FIRST, NO_TURNS, alone=True)
        turns, fresh = self.turn.wanted(self.slots, ()), self.slots + self.ahead
        return Want(self.name, fresh, *self._place(), turns, alone=True)

    def _place(self) -> Position:
        """Where to begin to look: where the last batch ended, but now and then at the start."""
        if time.monotonic() - self._looked > FROM_THE_START:
            self._begin_anew()
        return self._position

    def took(self, want: Want, leases: Sequence[Leased]) -> None:
        """Remember where a batch ended: the next one begins there, unless this was the last."""
        fresh = [leased for leased in leases if not leased.rescues]
        if len(fresh) < want.fresh:
            self._begin_anew()
        elif fresh:
            self._position = (fresh[-1].priority, fresh[-1].run_at, fresh[-1].id)

    def looked(self, turns: Turns, found: Sequence[int]) -> bool:
        """Hear how often those came back that were found; whether a slot was kept for nothing."""
        self.turn.looked(turns, found)
        in_vain = self.reserved and bool(turns) and not found
        if in_vain:
            self.reserved = False
        return in_vain

    def expect_another(self, rescues: Sequence[int]) -> None:
        """One that came back has ended: its slot is for the next that did, not for a fresh one."""
        self.reserved = self.turn.more and bool(self.held) and not self.turn.none_but_one(rescues)

    def keep_room(self, rescued: int) -> None:
        """Hear how often one came back that is due; it is never held, and needs a free slot."""
        self.reserved = rescued > 0 and self.free <= 0
        self.turn.heard(rescued)

    def _begin_anew(self) -> None:
        self._position, self._looked = FIRST, time.monotonic()

    def startable(self) -> Iterator[Run]:
        """Those that are held and can run now, taken off the pile."""
        while self.held and len(self.running) < self.slots - self.reserved:
            run = self.held.popleft()
            self.running[run.leased.id] = run
            yield run


class Desk:
    """All queues of a worker."""

    def __init__(self, queues: Mapping[str, int]) -> None:
        self.queues = {name: Queue(name, slots) for name, slots in queues.items()}
        self.clearing = Clearing()
        # Those that came back so often that they may well be what kills a process.
        self._suspects: set[Run] = set()

    def __bool__(self) -> bool:
        return any(queue.held or queue.running for queue in self.queues.values())

    def __contains__(self, run: Run) -> bool:
        queue = self.queues[run.leased.queue]
        return queue.running.get(run.leased.id) is run or run in queue.held

    def running_job(self, leased: Leased) -> Run | None:
        """An earlier run of a job that was leased again."""
        return self.queues[leased.queue].running.get(leased.id)

    def wants(self) -> list[Want]:
        """What each queue would take."""
        if not self or (self.clearing.wanted and not self.clearing.waiting):
            only = self.clearing.wanted
            return [queue.want_alone(only=only) for queue in self.queues.values()]
        if self.clearing.waiting or self._lonely():
            return []
        rescues = suspected(self.running())
        wants = (queue.want(rescues) for queue in self.queues.values())
        return [want for want in wants if want is not None]

    def expects(self, wants: Sequence[Want]) -> bool:
        """Whether it could take some now that came back, and more of them are believed due."""
        return any(want.turns and self.queues[want.queue].turn.more for want in wants)

    def _lonely(self) -> bool:
        """Whether a job runs beside which nothing else may begin yet."""
        return lonely(run for run in self._suspects if self.running_job(run.leased) is run)

    def took(self, wants: Sequence[Want], leases: Sequence[Leased], *, staged: bool) -> bool:
        """Remember where each queue's batch ended, and what was found of those that came back.

        Returns whether a slot was kept free for one of those, and there is none.
        """
        in_vain = False
        if any(want.alone for want in wants):
            self.clearing.over()
        for want in wants:
            of_queue = [leased for leased in leases if leased.queue == want.queue]
            self.queues[want.queue].took(want, of_queue)
            if staged:
                found = [leased.rescues for leased in of_queue if leased.rescues]
                in_vain |= self.queues[want.queue].looked(want.turns, found)
        return in_vain

    def put(self, run: Run) -> None:
        """A job was leased: in front if it came back from a lost worker, which may not wait."""
        held = self.queues[run.leased.queue].held
        self._note(run)
        if run.leased.rescues:
            self.queues[run.leased.queue].reserved = False
            held.appendleft(run)
        else:
            held.append(run)

    def occupy(self, run: Run) -> None:
        """Keep a slot for a job that does not run, until its end is committed."""
        self._note(run)
        self.queues[run.leased.queue].running[run.leased.id] = run

    def _note(self, run: Run) -> None:
        if run.leased.rescues >= GRAVE:
            self._suspects.add(run)

    def startable(self) -> Iterator[Run]:
        """Every job that can run now."""
        if self.clearing.waiting or self._lonely():
            return
        for queue in self.queues.values():
            yield from queue.startable()

    def clear(self, run: Run) -> None:
        """The end of a job is committed, or its lease is gone: its slot is free."""
        queue = self.queues[run.leased.queue]
        self._suspects.discard(run)
        if queue.running.get(run.leased.id) is run:
            del queue.running[run.leased.id]
            queue.count()
            if run.leased.rescues:
                queue.expect_another(suspected(self.running()))

    def running(self) -> list[Run]:
        """Every job that runs, or waits for the commit of its end."""
        return [run for queue in self.queues.values() for run in list(queue.running.values())]

    def leased(self) -> list[Run]:
        """Every job that is leased."""
        return self.running() + [run for queue in self.queues.values() for run in list(queue.held)]

    def drop(self, run: Run) -> None:
        """It never began, and somebody else has it."""
        queue = self.queues[run.leased.queue]
        self._suspects.discard(run)
        queue.running.pop(run.leased.id, None)
        if run in queue.held:
            queue.held.remove(run)

    def take_held(self, longer_than: float = 0.0) -> list[Run]:
        """Those that were held for so many seconds and never began, taken off the pile."""
        now = time.monotonic()
        taken: list[Run] = []
        for queue in self.queues.values():
            old = [run for run in queue.held if now - run.held >= longer_than]
            for run in old:
                queue.held.remove(run)
            taken += old
        return taken
