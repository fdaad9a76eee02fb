"""A worker or a relay beside what else the process does.

Usually it has a thread and an event loop of its own: receiving deliveries and listening to signals
goes on while a handler blocks that loop. But where the transactions of handlers are awaited, their
pool belongs to one event loop, and so worker and relay run on the server's.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from duly.core.errors import DulyError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


logger = logging.getLogger("duly")
# When a worker or a relay ends by itself: once nothing is left to do, or never.
Until = Literal["idle", "stopped"]
# Seconds before one that could not begin, or failed, begins again.
PAUSE = 1.0
# Seconds in which the event loop of one that has ended may be taken down.
TIDYING = 1.0
Account = TypeVar("Account")
Told_co = TypeVar("Told_co", covariant=True)


class Service(Protocol[Told_co]):
    """Whatever works in one event loop until it is told to stop, and then says what it did."""

    async def run(self, until: Until) -> Told_co:
        """Work until there is nothing to do, or until told to stop."""

    def stop(self) -> None:
        """Take nothing more, and end when what was begun is through. From any thread."""

    def stop_now(self) -> None:
        """Give back what was begun, and end. From any thread."""


class ServiceThread(Generic[Account]):
    """Runs one worker after the other, or one relay, until it is told to stop.

    Args:
        make_service: makes one that has not begun.
        release: gives back what the event loop holds, before that ends.
        name: what it is called in the log.
        until: when it ends by itself.
        restart_on_error: whether another begins after an error; otherwise the error is kept in
            ``problem``.
        on_end: called on the thread once the last one has ended.
    """

    def __init__(
        self,
        make_service: Callable[[], Service[Account]],
        release: Callable[[], Coroutine[Any, Any, None]],
        *,
        name: str = "worker",
        until: Until = "stopped",
        restart_on_error: bool = False,
        on_end: Callable[[], object] = lambda: None,
    ) -> None:
        # What it did, as it says itself; None until it has ended.
        self.result: Account | None = None
        self.problem: Exception | None = None
        self.name = name
        self._make_service = make_service
        self._release = release
        self._until = until
        self._restart_on_error = restart_on_error
        self._on_end = on_end
        self._lock = threading.Lock()
        self._service: Service[Account] | None = None
        self._stopping = threading.Event()
        self._stopping_now = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run_thread, name=f"duly-{name}", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def stop(self) -> None:
        """Take nothing more, and end when what was begun is through. From any thread."""
        with self._lock:
            self._stopping.set()
            if self._service is not None:
                self._service.stop()

    def stop_now(self) -> None:
        """Give back what was begun, and end. From any thread."""
        with self._lock:
            self._stopping.set()
            self._stopping_now = True
            if self._service is not None:
                self._service.stop_now()

    def wait(self, seconds: float) -> bool:
        """Wait for the end, as long as that; whether it has come."""
        if self._thread.ident is None:
            return True  # it was never started
        if not self._ended.wait(seconds):
            return False
        self._thread.join(TIDYING)
        return True

    def _run_thread(self) -> None:
        """Run on the thread, to the end."""
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._main())
        finally:
            self._mark_ended()

    async def _main(self) -> None:
        try:
            while not await self._run_once():
                await asyncio.to_thread(self._stopping.wait, PAUSE)
            await self._release()
        except Exception as problem:
            self.problem = self.problem or problem
        finally:
            # The event loop still waits for what its helpers do, and those may hang.
            self._mark_ended()

    async def _run_once(self) -> bool:
        """Run one; whether it was the last."""
        service = self._start_service()
        try:
            self.result = await service.run(self._until)
        except Exception as problem:
            if not self._restart_on_error or self._stopping.is_set():
                self.problem = problem
                return True
            logger.error(
                "the %s has ended and begins again: %s",
                self.name,
                problem,
                exc_info=None if isinstance(problem, DulyError) else problem,
            )
            return False
        return True

    def _start_service(self) -> Service[Account]:
        with self._lock:
            self._service = service = self._make_service()
            if self._stopping_now:
                service.stop_now()
            elif self._stopping.is_set():
                service.stop()
            return service

    def _mark_ended(self) -> None:
        if not self._ended.is_set():
            self._ended.set()
            self._on_end()


class ServiceTask(ServiceThread[Account]):
    """The same on the event loop that runs already, which keeps its connections when it ends."""

    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to work, as a task of the running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._main())

    def wait(self, seconds: float) -> bool:
        """Wait for the end, as long as that, from another thread; whether it has come."""
        return self._task is None or self._ended.wait(seconds)


async def keep_connections() -> None:
    """Give back nothing: the event loop goes on, and others use what it holds."""


def new_event_loop() -> asyncio.AbstractEventLoop:
    """The fastest event loop that is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
