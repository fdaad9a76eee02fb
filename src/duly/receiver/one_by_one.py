"""The lanes of deliveries that cannot travel with others: each in a transaction of its own.

Copies of one event follow the first of them, so that a busy key takes one place, however many
copies come. Whoever meets a busy key gives up its place after a moment and waits elsewhere for as
long as is allowed, so that those who only travelled with it are not kept waiting.
"""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duly.core.defaults import WAIT
from duly.core.errors import Held, StoreUnavailable
from duly.core.onestep import finish
from duly.inbox.accept import receive_alone, told_as_copy
from duly.receiver.commit_queue import late

if TYPE_CHECKING:
    from duly.core.session import Runner
    from duly.inbox.new_event import Arrival, Outcome

# At the same time, each with a connection: those who hope to be done at once, those who wait.
QUICK: Final = 4
PATIENT: Final = 2
MOMENT: Final = timedelta(milliseconds=100)


class AwaitedAlone:
    """For the requests of one event loop."""

    def __init__(self, runner: Runner, deadline: float) -> None:
        self._runner = runner
        self._deadline = deadline
        self._quick = asyncio.Semaphore(QUICK)
        self._patient = asyncio.Semaphore(PATIENT)
        self._going: dict[bytes, tuple[bytes, asyncio.Future[Outcome]]] = {}

    async def receive(self, arrival: Arrival, until: float) -> Outcome:
        """Receive one event, or learn what became of the copy that came first."""
        try:
            async with asyncio.timeout_at(until):
                fingerprint, first = self._going.get(arrival.digest, (None, None))
                if first is not None and fingerprint == arrival.fingerprint:
                    return told_as_copy(await asyncio.shield(first))
                return await self._lead(arrival)
        except TimeoutError:
            raise late(self._deadline) from None

    async def _lead(self, arrival: Arrival) -> Outcome:
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        mine = (arrival.fingerprint, answer)
        self._going.setdefault(arrival.digest, mine)
        problem: BaseException = StoreUnavailable("the first copy was given up: send it again")
        try:
            outcome = await self._received(arrival)
            answer.set_result(outcome)
        except Exception as found:
            problem = found
            raise
        else:
            return outcome
        finally:
            if not answer.done():
                answer.set_exception(problem)
                answer.exception()  # there may be no copy to hear it
            if self._going.get(arrival.digest) is mine:
                del self._going[arrival.digest]

    async def _received(self, arrival: Arrival) -> Outcome:
        if self._runner.waits_for_keys:
            try:
                async with self._quick:
                    return await self._run(arrival, MOMENT)
            except Held:
                pass
        async with self._patient:
            return await self._run(arrival, WAIT)

    async def _run(self, arrival: Arrival, wait: timedelta) -> Outcome:
        return await self._runner.run(
            lambda session: receive_alone(session, arrival), wait=wait, after_loss=False
        )


@dataclass(slots=True, eq=False)
class Going:
    """A delivery that is being received, and what its copies wait for."""

    fingerprint: bytes
    over: threading.Event = field(default_factory=threading.Event)
    outcome: Outcome | None = None
    problem: Exception | None = None


class BlockingAlone:
    """For the threads of one process."""

    def __init__(self, runner: Runner, deadline: float) -> None:
        self._runner = runner
        self._deadline = deadline
        self._quick = threading.BoundedSemaphore(QUICK)
        self._patient = threading.BoundedSemaphore(PATIENT)
        self._lock = threading.Lock()
        self._going: dict[bytes, Going] = {}

    def receive(self, arrival: Arrival, until: float) -> Outcome:
        """Receive one event, or learn what became of the copy that came first."""
        mine = Going(arrival.fingerprint)
        with self._lock:
            first = self._going.setdefault(arrival.digest, mine)
        if first is not mine and first.fingerprint == arrival.fingerprint:
            return self._follow(first, until)
        try:
            mine.outcome = self._received(arrival, until)
        except Exception as problem:
            mine.problem = problem
            raise
        finally:
            with self._lock:
                if self._going.get(arrival.digest) is mine:
                    del self._going[arrival.digest]
            mine.over.set()
        return mine.outcome

    def _follow(self, first: Going, until: float) -> Outcome:
        if not first.over.wait(max(until - time.monotonic(), 0)):
            raise late(self._deadline)
        if first.outcome is None:
            raise first.problem or StoreUnavailable("the first copy was given up: send it again")
        return told_as_copy(first.outcome)

    def _received(self, arrival: Arrival, until: float) -> Outcome:
        if self._runner.waits_for_keys:
            try:
                return self._run(arrival, MOMENT, self._quick, until)
            except Held:
                pass
        return self._run(arrival, WAIT, self._patient, until)

    def _run(
        self, arrival: Arrival, wait: timedelta, places: threading.Semaphore, until: float
    ) -> Outcome:
        if not places.acquire(timeout=max(until - time.monotonic(), 0)):
            raise late(self._deadline)
        try:
            operation = self._runner.run(
                lambda session: receive_alone(session, arrival),
                wait=wait,
                after_loss=False,
                within=max(until - time.monotonic(), 0),
            )
            return finish(operation)
        finally:
            places.release()
