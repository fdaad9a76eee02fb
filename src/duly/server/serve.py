"""One serving process: uvicorn with uvloop and httptools, and a drain that loses nothing.

The first SIGTERM or SIGINT drains: readiness turns to 503, no connection is accepted, requests
under way are answered, jobs that run and messages on their way are finished, counters are written.
The second ends the process as soon as its jobs and messages are given back, the third at once.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

import uvicorn
import uvloop

from duly.core.errors import DulyError
from duly.relay.settings import RelaySettings
from duly.server.protocol import BoundedProtocol
from duly.server.services import plan_worker, relay_service, worker_service
from duly.server.settings import BACKLOG, KEEP_ALIVE
from duly.server.shutdown import (
    AT_ONCE,
    ENDINGS,
    FAILED,
    LAST,
    REPLACE,
    has_hung_handlers,
    leave_at_once,
    restart_process,
    summary,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from duly.app.duly import Duly
    from duly.relay.stats import Relayed
    from duly.server.settings import ServerSettings
    from duly.service.service_thread import ServiceThread
    from duly.worker.stats import Worked

logger = logging.getLogger("duly.serve")
# Seconds to write the counters when everything else was given up.
FLUSH_SECONDS = 2.0
# Of the garbage collector: Python's first is 700, or 2,000.
GC_THRESHOLDS = (10_000, 20, 20)
ENDED = "ended: everything that was begun is answered"


class DulyServer(uvicorn.Server):
    """uvicorn's server with a worker and a relay beside it, and duly's drain."""

    def __init__(
        self,
        app: Duly,
        settings: ServerSettings,
        *,
        ready: Callable[[], None],
        single_process: bool,
    ) -> None:
        super().__init__(configuration(app, settings))
        self.gave_up = False
        # Handlers hang in threads: the process restarts once it is drained, with a copy of the
        # socket, on which requests wait meanwhile.
        self.must_restart = False
        self.spare_listener: socket.socket | None = None
        self._app = app
        self._settings = settings
        self._ready = ready
        self._single_process = single_process
        self._endings = ENDINGS if single_process else (*ENDINGS[:1], AT_ONCE)
        self._loop = asyncio.get_running_loop()
        self._worker: ServiceThread[Worked] | None = None
        self._relay: ServiceThread[Relayed] | None = None
        self._drain_deadline: float | None = None
        self._hurried = False

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing: `handle_signals` does, and for longer than the server runs."""
        yield

    @contextmanager
    def handle_signals(self) -> Iterator[None]:
        """Drain at the first signal; uvicorn would raise it again after the drain."""
        for number in self._endings:
            self._loop.add_signal_handler(number, self.end, number)
        try:
            yield
        finally:
            for number in self._endings:
                self._loop.remove_signal_handler(number)

    def end(self, number: int | None = None) -> None:
        """Begin to drain, or end at once where the drain has begun.

        One of several processes is ended at once only by the process that started it: a signal to
        the whole group reaches it twice, and must not cost what it is finishing.
        """
        if number is not None and number != AT_ONCE and self.must_restart:
            self.must_restart = False  # it drains already, and need not restart
            return
        if self._app.router.draining or number == AT_ONCE:
            if number is not None and (self._single_process or number == AT_ONCE):
                self._end_at_once(128 + number)
            return
        self._app.router.draining = True
        logger.info("draining: the requests that are here are finished first")
        self._loop.call_later(self._settings.linger, self._request_exit)

    def _end_at_once(self, code: int) -> None:
        """Give back jobs and messages that are under way, and leave; a second call only leaves."""
        services = self._services()
        if not services or self._hurried:
            leave_at_once(code)
        self._hurried = True
        for service in services:
            service.stop_now()

        def leave() -> None:
            deadline = time.monotonic() + LAST
            for service in services:
                service.wait(max(deadline - time.monotonic(), 0.0))
            leave_at_once(code)

        # Not on the event loop, which a handler may block.
        threading.Thread(target=leave, daemon=True).start()

    def end_as_orphan(self, lifeline: int) -> None:
        """Drain because the process that started this one is gone."""
        self._loop.remove_reader(lifeline)
        self.end()

    def _request_exit(self) -> None:
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, its worker and its relay, then report that it is served."""
        await super().startup(sockets)
        if self.started:
            self._start_worker()
            self._start_relay()
            spare_garbage_collector()
            self._ready()

    def _start_worker(self) -> None:
        concurrency = self._settings.concurrency
        plan = None if concurrency is None else plan_worker(self._app, concurrency)
        if plan is not None:
            self._worker = worker_service(
                self._app,
                plan.settings(self._settings.drain, self._settings.lease),
                on_end=lambda: self._call_on_service_end(self._worker),
                restart_on_error=True,
                in_loop=self._app.process.in_one_loop,
            )
            self._worker.start()
            self._app.receiver.metrics.has_own_worker = True

    def _start_relay(self) -> None:
        if self._settings.relay:
            grace = timedelta(seconds=self._settings.drain)
            self._relay = relay_service(
                self._app,
                RelaySettings(lease=self._settings.relay_lease, grace=grace),
                on_end=lambda: self._call_on_service_end(self._relay),
                restart_on_error=True,
                in_loop=self._app.process.in_one_loop,
            )
            self._relay.start()

    def _services(self) -> list[ServiceThread[Any]]:
        """Return the worker and the relay, as far as they run here."""
        return [one for one in (self._worker, self._relay) if one is not None]

    def _call_on_service_end(self, service: ServiceThread[Any] | None) -> None:
        self._loop.call_soon_threadsafe(self._on_service_end, service)

    def _on_service_end(self, service: ServiceThread[Any] | None) -> None:
        """Drain and restart where a worker or relay ended because a handler hangs in it."""
        result = None if service is None else service.result
        if result is not None and result.stuck and not self._app.router.draining:
            self.must_restart = True
            self.end()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer the requests that are here and close the application, within the drain's time."""
        self._drain_deadline = self._loop.time() + self._settings.drain
        for service in self._services():
            service.stop()
        if self.must_restart and self._single_process:
            self.spare_listener = duplicate_listener(sockets)
        try:
            async with asyncio.timeout(self._settings.drain):
                await super().shutdown(sockets)
        except TimeoutError:
            self.gave_up = True
            logger.warning(
                "gave up after %g seconds of draining: %d unanswered, to be sent again",
                self._settings.drain,
                self._count_unanswered(),
            )

    def _count_unanswered(self) -> int:
        """Return how many requests are under way, through ASGI or past it."""
        return len(self.server_state.tasks) + self._app.receiver.submitted

    async def wait_for_services(self) -> None:
        """Let jobs and messages finish in the time that is left; the rest is given back."""
        for service in self._services():
            service.stop()
        for service in self._services():
            left = (
                0.0
                if self._drain_deadline is None
                else max(self._drain_deadline - self._loop.time(), 0.0)
            )
            if not await asyncio.to_thread(service.wait, left + LAST):
                self.gave_up = True
                logger.warning(
                    "gave up: the %s could not give back what it had, its leases will run out",
                    service.name,
                )
            elif service.result is not None and (text := summary(service.result)):
                logger.info("the %s has ended: %s", service.name, text)


def spare_garbage_collector() -> None:
    """Leave what is loaded alone, and collect less often.

    Every delivery makes some objects and keeps none. By Python's defaults the collector looks at
    all of the application again and again meanwhile: a fifth of the processor time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def configuration(app: Duly, settings: ServerSettings) -> uvicorn.Config:
    """Return uvicorn's configuration; the log is set up, and the receiver logs requests."""
    return uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=settings.proxies is not None,
        forwarded_allow_ips=settings.proxies or "",
        server_header=False,
        limit_concurrency=settings.max_connections,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE,
    )


def serve(
    app: Duly,
    listener: socket.socket,
    settings: ServerSettings,
    *,
    ready: Callable[[], None],
    lifeline: int | None = None,
) -> int:
    """Serve until a signal, or until the process at the other end of ``lifeline`` is gone."""

    async def main() -> int:
        server = DulyServer(app, settings, ready=ready, single_process=lifeline is None)
        if lifeline is not None:
            asyncio.get_running_loop().add_reader(lifeline, server.end_as_orphan, lifeline)
        with server.handle_signals():
            with suppress(SystemExit):  # how uvicorn reports that the application did not start
                await server.serve(sockets=[listener])
            await server.wait_for_services()
            return await close_app(app, server, log_end=lifeline is None)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


async def close_app(app: Duly, server: DulyServer, *, log_end: bool) -> int:
    """Close the application unless handlers hang; return the exit code."""
    hangs = has_hung_handlers()
    if server.gave_up or hangs:
        await flush_counters(app)
    else:
        await app.aclose()
        await app.process.release_loop()
    if server.must_restart and not server.gave_up:
        replace_process(server.spare_listener)
    if server.started and not server.gave_up and log_end:
        logger.info(ENDED)
    code = 0 if server.started and not server.gave_up else FAILED
    if server.gave_up or hangs:
        leave_at_once(code)
    return code


def duplicate_listener(sockets: list[socket.socket] | None) -> socket.socket:
    """Copy the server's socket, so that it stays open when the server closes its own."""
    assert sockets  # noqa: S101  # it is given one
    return sockets[0].dup()


def replace_process(spare: socket.socket | None) -> NoReturn:
    """Restart, or have the process that started this one start another."""
    if spare is None:
        leave_at_once(REPLACE)
    restart_process(spare)


async def flush_counters(app: Duly) -> None:
    """Write the counters, if the store still answers."""
    with suppress(TimeoutError, DulyError):
        async with asyncio.timeout(FLUSH_SECONDS):
            await app.receiver.metrics.flush_awaited(closing=True)
