"""Deadlines of a transaction of the user's ORM, in three parts.

Opening it and claiming the event has the time that the sender has left. The handler has its
timeout. COMMIT has as long as a statement of duly's own. A database that takes a statement and
never answers would otherwise keep the connection, and every later delivery waiting, for ever.

An async transaction is cancelled at its deadline. A sync call cannot be cancelled, so the socket
to the server is shut down under it and the driver reports a lost connection.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import os
import socket
import threading
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from duly.core.errors import StoreUnavailable
from duly.jobs.invoke import Overdue
from duly.stores.fork_lock import ForkSafeLock
from duly.stores.orm.commit_check import is_connection_lost
from duly.stores.revocable_connection import RevocableConnection

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

logger = logging.getLogger("duly")
# Seconds for a statement of duly's own, and for COMMIT, once their locks are free.
ANSWER = 3.0
# Seconds for a connection of the ORM's pool where no sender waits: SQLAlchemy itself waits 30.
CONNECT_SECONDS = 35.0
# Seconds at least, however late it is: a healthy database answers within that.
SHORTEST_WAIT = 0.1
# Seconds for a cancelled transaction to end by itself, with a cancel request to the server.
CANCEL_GRACE = 1.0
# Seconds after a handler's timeout: its worker counts from the same moment and acts first.
SLACK = 3.0
# After so many alarms the stopped ones are dropped.
ALARMS_PER_CLEANUP = 1024


class Bounds(NamedTuple):
    """What the caller allows: the wait for a lock, the sender's time, the handler's timeout."""

    wait: timedelta
    within: float | None = None
    lasting: timedelta | None = None

    @property
    def opening(self) -> float:
        """Seconds for the connection, BEGIN and the claim."""
        return CONNECT_SECONDS if self.within is None else max(self.within, SHORTEST_WAIT)

    @property
    def handling(self) -> float | None:
        """Seconds for the handler; None where the code inside bounds itself."""
        return None if self.lasting is None else self.lasting.total_seconds() + SLACK

    @property
    def ending(self) -> float:
        """Seconds for COMMIT: as for any statement, or what the sender had left if that is less."""
        usual = ANSWER + self.wait.total_seconds()
        return usual if self.within is None else max(min(usual, self.within), SHORTEST_WAIT)


class TransactionDeadline(ABC):
    """Which part of the transaction runs, and the error of a part that took too long."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._in_handler = False
        self._handler_started = 0.0
        self._handler_took = 0.0

    def start_handling(self) -> None:
        """The handler runs from now on."""
        self._set_deadline(self._bounds.handling)
        self._in_handler = True
        self._handler_started = time.monotonic()

    def start_ending(self) -> None:
        """The handler has returned, and COMMIT follows."""
        self._set_deadline(self._bounds.ending)
        self._handler_took = self._handler_elapsed()
        self._in_handler = False

    @abstractmethod
    def _set_deadline(self, seconds: float | None) -> None:
        """Move the deadline: so many seconds from now, or none; raise where it has passed."""

    def _handler_elapsed(self) -> float:
        """Seconds that the handler has taken."""
        return time.monotonic() - self._handler_started if self._in_handler else self._handler_took

    @property
    def _overdue(self) -> bool:
        """True where the handler took longer than its timeout: PostgreSQL may have ended it."""
        lasting = self._bounds.lasting
        return lasting is not None and self._handler_elapsed() > lasting.total_seconds()

    def _timeout_error(self) -> Exception:
        if (self._in_handler or self._overdue) and self._bounds.lasting is not None:
            return Overdue(self._bounds.lasting.total_seconds())
        return StoreUnavailable(
            "the database of begin= did not answer in time, so duly gave up its transaction and "
            "closed its connection: nothing may be acknowledged"
        )


class AsyncDeadline(TransactionDeadline):
    """Cancels the task of an async transaction at its deadline, then cuts its connection.

    The cancellation alone is not enough: the block of a savepoint rolls back on its way out, and
    asyncpg then waits for a silent server to confirm the cancellation.
    """

    def __init__(self, bounds: Bounds) -> None:
        super().__init__(bounds)
        self._timeout = asyncio.timeout(bounds.opening)
        self._driver: Any = None
        self._cut_timer: asyncio.TimerHandle | None = None

    def watch(self, connection: Any) -> None:
        """Cut this driver's connection where a cancellation does not end the block."""
        self._driver = connection
        self._plan_cut(self._timeout.when())

    @property
    def is_over(self) -> bool:
        """True once the task was cancelled: the server may never answer on this connection."""
        return self._timeout.expired()

    def stop(self) -> None:
        """Stop watching: the connection goes back to its pool, and to other code."""
        self._plan_cut(None)

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        self.stop()
        try:
            await self._timeout.__aexit__(*raised)
        except TimeoutError as problem:
            raise self._timeout_error() from problem
        if isinstance(raised[1], Exception) and self._overdue and is_connection_lost(raised[1]):
            raise self._timeout_error() from raised[1]

    def _set_deadline(self, seconds: float | None) -> None:
        if self.is_over:  # the handler swallowed its cancellation
            raise self._timeout_error()
        until = None if seconds is None else asyncio.get_running_loop().time() + seconds
        self._timeout.reschedule(until)
        self._plan_cut(until)

    def _plan_cut(self, until: float | None) -> None:
        if self._cut_timer is not None:
            self._cut_timer.cancel()
            self._cut_timer = None
        if until is not None and self._driver is not None:
            loop = asyncio.get_running_loop()
            self._cut_timer = loop.call_at(until + CANCEL_GRACE, cut_connection, self._driver)


class SyncDeadline(TransactionDeadline):
    """Shuts down the socket to the server at the deadline of a sync transaction."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__(bounds)
        self._alarm: Alarm | None = None
        self._revocable: RevocableConnection | None = None
        self._socket: socket.socket | None = None

    def watch(self, connection: Any) -> None:
        """Apply the deadline to this driver's connection from now on."""
        self._socket = socket_of(connection)
        cut = connection.interrupt if self._socket is None else self._cut_connection
        self._revocable = RevocableConnection(cut, exclusive=True)
        self._set_deadline(self._bounds.opening)

    @property
    def is_over(self) -> bool:
        """True once the socket was shut down: the connection is of no more use."""
        return self._revocable is not None and self._revocable.revoked

    def __enter__(self) -> Self:
        return self

    def stop(self) -> None:
        """Stop watching: the connection goes back to its pool, and to other code."""
        if self._revocable is not None:
            self._revocable.__exit__()
        self._stop_alarm()
        if self._socket is not None:
            self._socket.close()

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        self.stop()
        if not isinstance(problem, Exception):
            return
        if self.is_over or (self._overdue and is_connection_lost(problem)):
            raise self._timeout_error() from problem

    def _set_deadline(self, seconds: float | None) -> None:
        self._stop_alarm()
        if self.is_over:
            raise self._timeout_error()
        if seconds is not None and self._revocable is not None:
            self._alarm = WATCHDOG.call_after(seconds, self._revocable.revoke)

    def _stop_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.call = None

    def _cut_connection(self) -> None:
        if self._socket is not None:
            shut_down_socket(self._socket)


def cut_connection(connection: Any) -> None:
    """End a driver's async connection, on the event loop that uses it."""
    if hasattr(connection, "terminate"):  # asyncpg
        connection.terminate()
    elif hasattr(connection, "fileno"):  # psycopg; a closed one has no descriptor
        with suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as found:
            shut_down_socket(found)


def shut_down_socket(found: socket.socket) -> None:
    """End every read and write on a socket, in any thread."""
    with suppress(OSError):  # the server has closed it already
        found.shutdown(socket.SHUT_RDWR)


def socket_of(connection: Any) -> socket.socket | None:
    """The socket of a driver's connection by a duplicated descriptor; None for a file.

    The driver may close its own descriptor at any time, and the system may reuse its number.
    """
    fileno = getattr(connection, "fileno", None)
    return None if fileno is None else socket.socket(fileno=os.dup(fileno()))


class Alarm:
    """One call that is due at a time; ``call`` is None once it is stopped."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call


class Watchdog:
    """Makes calls when they are due, on one thread for the whole process."""

    def __init__(self) -> None:
        self._process = 0
        self._starting = ForkSafeLock()
        self._reset()

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Alarm]] = []
        self._numbers = count()

    def call_after(self, seconds: float, call: Callable[[], None]) -> Alarm:
        """Call back after so many seconds, unless the alarm is stopped before."""
        if self._process != os.getpid():  # a forked child has none of its parent's threads
            self._start()
        alarm = Alarm(call)
        with self._changed:
            number = next(self._numbers)
            if number % ALARMS_PER_CLEANUP == 0:  # stopped ones would pile up behind the first
                self._due = [one for one in self._due if one[2].call is not None]
                heapq.heapify(self._due)
            heapq.heappush(self._due, (time.monotonic() + seconds, number, alarm))
            if self._due[0][2] is alarm:
                self._changed.notify()
        return alarm

    def _start(self) -> None:
        """Start the thread of this process, once, however many callers come first."""
        with self._starting():
            if self._process != os.getpid():
                self._reset()
                threading.Thread(target=self._run_alarms, name="duly-watchdog", daemon=True).start()
                self._process = os.getpid()

    def _run_alarms(self) -> None:
        while True:
            call = self._next_call()
            if call is not None:
                try:
                    call()
                except Exception:  # every other transaction needs this thread
                    logger.exception(
                        "could not cut the connection of an overdue transaction of begin="
                    )

    def _next_call(self) -> Callable[[], None] | None:
        """Sleep until the first alarm is due, and take it."""
        with self._changed:
            while self._due and self._due[0][2].call is None:
                heapq.heappop(self._due)
            left = self._due[0][0] - time.monotonic() if self._due else None
            if left is None or left > 0:
                self._changed.wait(left)
                return None
            return heapq.heappop(self._due)[2].call


WATCHDOG = Watchdog()
