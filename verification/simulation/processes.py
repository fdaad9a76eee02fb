"""One simulated process: an event loop, its threads, and nothing that outlives a crash."""

from __future__ import annotations

from asyncio import events
from collections import deque
from typing import TYPE_CHECKING, Any

from verification.simulation.errors import Endless
from verification.simulation.loops import Handle, Loop
from verification.simulation.running import RUNNING
from verification.simulation.threads import Strand

if TYPE_CHECKING:
    from collections.abc import Callable

    from verification.simulation.world import World

# More steps in a row than any process of duly takes before it waits for something.
MOST_STEPS = 20_000


class Process:
    """A process of duly's: what is ready in it runs until all of it waits for the world."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.alive = True
        self.stalled = False
        # Of the schedule: a slow one is mostly passed over where others can go on.
        self.slow = False
        # Called once it is gone, by itself or by a crash.
        self.died: Callable[[], None] = lambda: None
        self.ready: deque[Handle] = deque()
        self.loop = Loop(self)
        self._strands: list[Strand] = []
        self._strand: Strand | None = None

    def __repr__(self) -> str:
        return self.name

    def run(self) -> None:
        """Run what is ready, unless the process is stopped or gone."""
        if self.stalled or not self.alive:
            return
        steps = 0
        RUNNING.append(self)
        loop: Any = self.loop
        before = events._get_running_loop()
        events._set_running_loop(loop)
        try:
            while self.ready:
                handle = self.ready.popleft()
                if not handle.gone:
                    handle.context.run(handle.callback, *handle.arguments)
                steps += 1
                if steps > MOST_STEPS:
                    raise Endless(f"{self} turns in a circle without asking for anything")
        finally:
            events._set_running_loop(before)
            RUNNING.pop()

    def soon(self, call: Callable[..., object], *arguments: Any) -> None:
        """Have something called after what is ready now."""
        self.ready.append(Handle(self, call, arguments, None))

    def later(self, seconds: float, call: Callable[[], object]) -> Handle:
        """Have something called after so many seconds."""
        return self.loop.call_later(seconds, call)

    def begin_thread(self, work: Callable[[], object]) -> Strand:
        """Begin a thread of this process."""
        strand = Strand(self, work)
        self._strands.append(strand)
        self.soon(strand.go_on)
        return strand

    def in_strand(self, strand: Strand) -> Callable[[], None]:
        """Note that a thread runs, and in no event loop; returns what ends that."""
        before, self._strand = self._strand, strand
        events._set_running_loop(None)

        def end() -> None:
            loop: Any = self.loop
            self._strand = before
            events._set_running_loop(loop)

        return end

    def running_strand(self) -> Strand:
        """The thread that runs."""
        if self._strand is None:
            raise RuntimeError("an event loop of the simulation was to block: use a thread")
        return self._strand

    @property
    def on_thread(self) -> bool:
        """Whether a thread runs, and not the event loop."""
        return self._strand is not None

    def stop(self) -> None:
        """SIGSTOP: it does nothing until it goes on."""
        self.stalled = True

    def go_on(self, after: int) -> None:
        """SIGCONT: it goes on where it was, and does not know how long it was away.

        Its timers, which are all due by now, may come some microseconds after what it waited for.
        """
        self.stalled = False
        late = list(self.ready)
        self.ready.clear()
        for handle in late:
            self.world.at(self.world.now + after, handle)

    def die(self) -> None:
        """SIGKILL: what it had asked for is never answered, what it knew is gone."""
        if self.alive:
            self.alive = False
            self.ready.clear()
            self.world.forget(self)
            self.died()

    def take_apart(self) -> None:
        """Free what a crash left half-way."""
        self.ready.clear()
        loop: Any = self.loop
        before = events._get_running_loop()
        events._set_running_loop(loop)
        RUNNING.append(self)
        try:
            for strand in self._strands:
                strand.end()
            self.loop.take_apart()
        finally:
            RUNNING.pop()
            events._set_running_loop(before)
        self._strands = []
        self.ready.clear()

    def unheard(self, context: dict[str, Any]) -> None:
        """An error in this process that no code of duly's has heard."""
        problem = context.get("exception")
        self.world.complaints.append(f"{self}: {context.get('message')}: {problem!r}")
