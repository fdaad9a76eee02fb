"""Events that cannot be committed in a batch: each in a transaction of its own.

Copies of one event follow the first of them, so that a busy key takes one slot, however many
copies come. An event whose key is busy gives up its slot after a moment and waits in another for as
long as is allowed, so that the others of its batch are not kept waiting.
"""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duly.core.defaults import WAIT
from duly.core.errors import InProgress, StoreUnavailable
from duly.core.onestep import finish
from duly.inbox.accept import outcome_for_copy
from duly.inbox.accept_one import receive_alone
from duly.receiver.commit_queue import commit_timeout_error

if TYPE_CHECKING:
    from duly.core.session import Runner
    from duly.inbox.new_event import EventOutcome, NewEvent

# How many run at the same time, each with a connection: with a short wait, and with a long one.
SHORT_WAITS: Final = 4
LONG_WAITS: Final = 2
SHORT_WAIT: Final = timedelta(milliseconds=100)


class OneByOne:
    """For the requests of one event loop."""

    def __init__(self, runner: Runner, deadline: float) -> None:
        self._runner = runner
        self._deadline = deadline
        self._short_waits = asyncio.Semaphore(SHORT_WAITS)
        self._long_waits = asyncio.Semaphore(LONG_WAITS)
        self._in_flight: dict[bytes, tuple[bytes, asyncio.Future[EventOutcome]]] = {}

    async def receive(self, event: NewEvent, until: float) -> EventOutcome:
        """Receive one event, or wait for the outcome of the copy that came first."""
        try:
            async with asyncio.timeout_at(until):
                fingerprint, first = self._in_flight.get(event.digest, (None, None))
                if first is not None and fingerprint == event.fingerprint:
                    return outcome_for_copy(await asyncio.shield(first))
                return await self._receive_first_copy(event)
        except TimeoutError:
            raise commit_timeout_error(self._deadline) from None

    async def _receive_first_copy(self, event: NewEvent) -> EventOutcome:
        answer: asyncio.Future[EventOutcome] = asyncio.get_running_loop().create_future()
        mine = (event.fingerprint, answer)
        self._in_flight.setdefault(event.digest, mine)
        problem: BaseException = StoreUnavailable("the first copy was given up: send it again")
        try:
            outcome = await self._receive_with_retry(event)
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
            if self._in_flight.get(event.digest) is mine:
                del self._in_flight[event.digest]

    async def _receive_with_retry(self, event: NewEvent) -> EventOutcome:
        if self._runner.waits_for_keys:
            try:
                async with self._short_waits:
                    return await self._run_transaction(event, SHORT_WAIT)
            except InProgress:
                pass
        async with self._long_waits:
            return await self._run_transaction(event, WAIT)

    async def _run_transaction(self, event: NewEvent, wait: timedelta) -> EventOutcome:
        return await self._runner.run(
            lambda session: receive_alone(session, event), wait=wait, after_loss=False
        )


@dataclass(slots=True, eq=False)
class InFlightEvent:
    """A delivery that is being received, and what its copies wait for."""

    fingerprint: bytes
    over: threading.Event = field(default_factory=threading.Event)
    outcome: EventOutcome | None = None
    problem: Exception | None = None


class ThreadOneByOne:
    """For the threads of one process."""

    def __init__(self, runner: Runner, deadline: float) -> None:
        self._runner = runner
        self._deadline = deadline
        self._short_waits = threading.BoundedSemaphore(SHORT_WAITS)
        self._long_waits = threading.BoundedSemaphore(LONG_WAITS)
        self._lock = threading.Lock()
        self._in_flight: dict[bytes, InFlightEvent] = {}

    def receive(self, event: NewEvent, until: float) -> EventOutcome:
        """Receive one event, or wait for the outcome of the copy that came first."""
        mine = InFlightEvent(event.fingerprint)
        with self._lock:
            first = self._in_flight.setdefault(event.digest, mine)
        if first is not mine and first.fingerprint == event.fingerprint:
            return self._wait_for_first_copy(first, until)
        try:
            mine.outcome = self._receive_with_retry(event, until)
        except Exception as problem:
            mine.problem = problem
            raise
        finally:
            with self._lock:
                if self._in_flight.get(event.digest) is mine:
                    del self._in_flight[event.digest]
            mine.over.set()
        return mine.outcome

    def _wait_for_first_copy(self, first: InFlightEvent, until: float) -> EventOutcome:
        if not first.over.wait(max(until - time.monotonic(), 0)):
            raise commit_timeout_error(self._deadline)
        if first.outcome is None:
            raise first.problem or StoreUnavailable("the first copy was given up: send it again")
        return outcome_for_copy(first.outcome)

    def _receive_with_retry(self, event: NewEvent, until: float) -> EventOutcome:
        if self._runner.waits_for_keys:
            try:
                return self._run_transaction(event, SHORT_WAIT, self._short_waits, until)
            except InProgress:
                pass
        return self._run_transaction(event, WAIT, self._long_waits, until)

    def _run_transaction(
        self, event: NewEvent, wait: timedelta, slots: threading.Semaphore, until: float
    ) -> EventOutcome:
        if not slots.acquire(timeout=max(until - time.monotonic(), 0)):
            raise commit_timeout_error(self._deadline)
        try:
            operation = self._runner.run(
                lambda session: receive_alone(session, event),
                wait=wait,
                after_loss=False,
                within=max(until - time.monotonic(), 0),
            )
            return finish(operation)
        finally:
            slots.release()
