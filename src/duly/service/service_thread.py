"""A worker or a relay inside a process that does other things, too.

Usually it has a thread and an event loop of its own: the server goes on receiving deliveries and
signals while a handler blocks that loop. If the transactions of handlers are async, their pool
belongs to one event loop, and so worker and relay run on the server's.
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
# When a worker or a relay ends by itself: once it is idle, or never.
Until = Literal["idle", "stopped"]
# Seconds before a service that failed starts again.
PAUSE = 1.0
# Seconds for the event loop of a service that has ended to close.
TIDYING = 1.0
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


class Service(Protocol[Result_co]):
    """A worker or a relay: runs in one event loop, and returns what it did."""

    async def run(self, until: Until) -> Result_co:
        """Work until idle, or until told to stop."""

    def stop(self) -> None:
        """Take nothing more, and end when what runs has ended. From any thread."""

    def stop_now(self) -> None:
        """Release what runs, and end. From any thread."""


class ServiceThread(Generic[Result]):
    """Runs a worker or a relay on a thread, until told to stop.

    Args:
        make_service: makes a service that has not started.
        release: closes the connections of the event loop before that ends.
        name: its name in the log.
        until: when it ends by itself.
        restart_on_error: start another after an error; otherwise the error is kept in ``problem``.
        on_end: called on the thread once the service has ended.
    """

    def __init__(
        self,
        make_service: Callable[[], Service[Result]],
        release: Callable[[], Coroutine[Any, Any, None]],
        *,
        name: str = "worker",
        until: Until = "stopped",
        restart_on_error: bool = False,
        on_end: Callable[[], object] = lambda: None,
    ) -> None:
        # What the service returned; None until it has ended.
        self.result: Result | None = None
        self.problem: Exception | None = None
        self.name = name
        self._make_service = make_service
        self._release = release
        self._until = until
        self._restart_on_error = restart_on_error
        self._on_end = on_end
        self._lock = threading.Lock()
        self._service: Service[Result] | None = None
        self._stopping = threading.Event()
        self._stopping_now = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run_thread, name=f"duly-{name}", daemon=True)

    def start(self) -> None:
        """Start."""
        self._thread.start()

    def stop(self) -> None:
        """Take nothing more, and end when what runs has ended. From any thread."""
        with self._lock:
            self._stopping.set()
            if self._service is not None:
                self._service.stop()

    def stop_now(self) -> None:
        """Release what runs, and end. From any thread."""
        with self._lock:
            self._stopping.set()
            self._stopping_now = True
            if self._service is not None:
                self._service.stop_now()

    def wait(self, seconds: float) -> bool:
        """Wait up to so many seconds; return True if it has ended."""
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
            # The event loop still waits for its helper threads, and those may hang.
            self._mark_ended()

    async def _run_once(self) -> bool:
        """Run a service to its end; return False if another must start."""
        service = self._start_service()
        try:
            self.result = await service.run(self._until)
        except Exception as problem:
            if not self._restart_on_error or self._stopping.is_set():
                self.problem = problem
                return True
            logger.error(
                "the %s failed and starts again: %s",
                self.name,
                problem,
                exc_info=None if isinstance(problem, DulyError) else problem,
            )
            return False
        return True

    def _start_service(self) -> Service[Result]:
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


class ServiceTask(ServiceThread[Result]):
    """A service as a task of the running event loop, whose connections stay open."""

    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start, as a task of the running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._main())

    def wait(self, seconds: float) -> bool:
        """Wait up to so many seconds, from another thread; return True if it has ended."""
        return self._task is None or self._ended.wait(seconds)


async def keep_connections() -> None:
    """Close nothing: the event loop goes on, and others use its connections."""


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's event loop if it is installed, else asyncio's."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
