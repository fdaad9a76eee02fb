"""What a process asks of the database or of the world: it waits until the schedule picks it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from verification.simulation.errors import Crashed, Violation
from verification.simulation.threads import wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from verification.simulation.processes import Process
    from verification.simulation.threads import Strand


# Later than any schedule.
NEVER = 2**62


class Request:
    """One step that a process waits for.

    Args:
        process: who asks.
        label: what for, in one or two words that are the same in every run of a schedule.
        act: does it, and returns or raises the answer.
        lock: whether it can only be done while no transaction is open; then ``until`` is when
            the wait for that ends with an error.
    """

    __slots__ = ("_future", "_strand", "act", "label", "lock", "process", "until", "waits")

    def __init__(
        self, process: Process, label: str, act: Callable[[], Any], *, lock: bool = False
    ) -> None:
        self.process = process
        self.label = label
        self.act = act
        self.lock = lock
        self.until = NEVER
        self.waits = True
        self._future: asyncio.Future[Any] | None = None
        self._strand: Strand | None = None

    async def answer(self) -> Any:
        """Wait for it, sync or async: a thread gives way, a task is suspended."""
        process = self.process
        if not process.alive:
            raise Crashed
        if process.on_thread:
            self._strand = process.running_strand()
            process.world.asked.append(self)
            return heard(wait())
        self._future = process.loop.create_future()
        process.world.asked.append(self)
        try:
            return await self._future
        except asyncio.CancelledError:
            process.world.withdraw(self)
            raise

    def perform(self) -> None:
        """Do it, and hand the answer over."""
        self.waits = False
        try:
            answer = self.act()
        except Violation:
            raise
        except Exception as problem:
            self.tell(None, problem)
        else:
            self.tell(answer, None)

    def tell(self, answer: object, problem: Exception | None) -> None:
        """Hand over an answer, unless the process is gone."""
        self.waits = False
        if self._strand is not None:
            self.process.soon(self._strand.go_on, (answer, problem))
        elif self._future is not None and not self._future.done():
            if problem is None:
                self._future.set_result(answer)
            else:
                self._future.set_exception(problem)
        self.process.run()


def heard(told: tuple[Any, Exception | None]) -> Any:
    """The answer as the thread that waited for it gets it."""
    answer, problem = told
    if problem is not None:
        raise problem
    return answer
