"""One process that serves: uvicorn with uvloop and httptools, and an end that loses nothing.

The first SIGTERM or SIGINT drains: readiness says so, nothing more is accepted, what is being
received is finished and answered, what was counted is written. The second ends the process at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn

import uvicorn
import uvloop

from duly._kernel.errors import DulyError
from duly.tools.serving.protocol import Bounded
from duly.tools.serving.settings import BACKLOG, KEEP_ALIVE

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from duly.app import Duly
    from duly.tools.serving.settings import Settings

logger = logging.getLogger("duly.serve")
ENDINGS = (signal.SIGTERM, signal.SIGINT)
# How long the last sums may take to be written when everything else was given up.
LAST_WRITE = 2.0
FAILED = 1
ENDED = "ended: everything that was begun is answered"


class Server(uvicorn.Server):
    """uvicorn's server, which ends as duly's applications need it."""

    def __init__(
        self,
        app: Duly,
        settings: Settings,
        *,
        ready: Callable[[], None],
        alone: bool,
    ) -> None:
        super().__init__(configuration(app, settings))
        self.gave_up = False
        self._app = app
        self._settings = settings
        self._ready = ready
        self._alone = alone
        self._endings = ENDINGS if alone else ENDINGS[:1]

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Drain at the first signal; uvicorn would die of it once more after it has drained."""
        loop = asyncio.get_running_loop()
        for number in self._endings:
            loop.add_signal_handler(number, self.end, number)
        try:
            yield
        finally:
            for number in self._endings:
                loop.remove_signal_handler(number)

    def end(self, number: int | None = None) -> None:
        """Begin to drain, or end at once where it has begun.

        A worker is ended at once only by whoever started it: a signal to the whole group reaches it
        twice, and must not cost what it is finishing.
        """
        if self._app.site.draining:
            if self._alone and number is not None:
                leave_at_once(128 + number)
            return
        self._app.site.draining = True
        logger.info("draining: the requests that are here are finished first")
        asyncio.get_running_loop().call_later(self._settings.linger, self._leave)

    def orphan(self, lifeline: int) -> None:
        """Drain because the process that started this one is gone."""
        asyncio.get_running_loop().remove_reader(lifeline)
        self.end()

    def _leave(self) -> None:
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the application, then say that it is served."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish what is here and close the application, as long as there is time."""
        try:
            async with asyncio.timeout(self._settings.drain):
                await super().shutdown(sockets)
        except TimeoutError:
            self.gave_up = True
            logger.warning(
                "gave up after %g seconds of draining: %d unanswered, to be sent again",
                self._settings.drain,
                len(self.server_state.tasks),
            )


def configuration(app: Duly, settings: Settings) -> uvicorn.Config:
    """What uvicorn is told; the log is set up already, and requests are logged by the edge."""
    return uvicorn.Config(
        app,
        http=Bounded,
        ws="none",
        lifespan="on",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=settings.proxies is not None,
        forwarded_allow_ips=settings.proxies or "",
        server_header=False,
        limit_concurrency=settings.most,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE,
    )


def serve(
    app: Duly,
    listener: socket.socket,
    settings: Settings,
    *,
    ready: Callable[[], None],
    lifeline: int | None = None,
) -> int:
    """Serve until a signal, or until the process at the other end of ``lifeline`` is gone."""

    async def main() -> int:
        server = Server(app, settings, ready=ready, alone=lifeline is None)
        if lifeline is not None:
            asyncio.get_running_loop().add_reader(lifeline, server.orphan, lifeline)
        with suppress(SystemExit):  # uvicorn's way to say that the application did not start
            await server.serve(sockets=[listener])
        if server.gave_up:
            await last_write(app)
            leave_at_once(FAILED)
        await app.aclose()
        if server.started and lifeline is None:  # of several, whoever started them says it
            logger.info(ENDED)
        return 0 if server.started else FAILED

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


async def last_write(app: Duly) -> None:
    """Write what was counted, if the store still answers."""
    with suppress(TimeoutError, DulyError):
        async with asyncio.timeout(LAST_WRITE):
            await app.receiver.reports.flush_awaited()


def leave_at_once(code: int) -> NoReturn:
    """End without waiting for a handler's thread, which nothing can stop."""
    logging.shutdown()
    os._exit(code)
