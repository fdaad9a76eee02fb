"""Several processes on one socket: started together, replaced when they die, drained together.

Each imports the application for itself: nothing is shared but the socket and the database, so no
connection is ever used by two processes. If this process is killed, its workers see it and drain.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING

from duly.app.loading import loaded
from duly.app.output import one_line
from duly.server.logging import begin_log, secrets_of
from duly.server.serve import ENDED, serve
from duly.server.shutdown import AT_ONCE, FAILED, LAST, REPLACE, noticed_signals

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from multiprocessing.context import SpawnProcess

    from duly.server.settings import Settings
    from duly.server.shutdown import Line

logger = logging.getLogger("duly.serve")
# A worker that dies as soon as it lives is not started again and again without a breath.
PAUSE = 1.0
SPAWN = multiprocessing.get_context("spawn")


@dataclass(eq=False, slots=True)
class Worker:
    """One process, and the line on which it says that it serves."""

    process: SpawnProcess
    line: Connection
    begun: float
    ready: bool = False


class Crew:
    """The processes of one server."""

    def __init__(
        self, settings: Settings, listener: socket.socket, ready: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._listener = listener
        self._ready: Callable[[], None] | None = ready
        self._workers: list[Worker] = []
        self._due: list[float] = []
        self._ending = False
        # When those are killed that were told to end at once.
        self._kill: float | None = None
        self._code = 0

    def run(self) -> int:
        """Keep them running until a signal; returns the exit code."""
        with noticed_signals() as signals:
            for _ in range(self._settings.workers):
                self._hire()
            while self._workers or self._due:
                self._look(signals)
        if self._code == 0:
            logger.info(ENDED)
        return self._code

    def _hire(self) -> None:
        ours, theirs = SPAWN.Pipe(duplex=False)
        process = SPAWN.Process(target=work, args=(self._settings, self._listener, theirs))
        # Ctrl-C reaches every process of a terminal; only this one is to act on it.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        theirs.close()
        self._workers.append(Worker(process, ours, time.monotonic()))

    def _look(self, signals: Line) -> None:
        """Wait until something happens, and do what follows from it."""
        moments = [*self._due, *([] if self._kill is None else [self._kill])]
        pause = max(0.0, min(moments) - time.monotonic()) if moments else None
        lines = [worker.line for worker in self._workers if not worker.ready]
        dying = [worker.process.sentinel for worker in self._workers]
        seen = set(wait([signals.reader, *lines, *dying], pause))
        if signals.reader in seen and (numbers := signals.read()):
            self._end(numbers)
        for worker in list(self._workers):
            if worker.line in seen and not worker.ready:
                worker.ready = heard(worker.line)
            if worker.process.sentinel in seen:
                self._gone(worker)
        self._announce()
        for due in [due for due in self._due if due <= time.monotonic()]:
            self._due.remove(due)
            self._hire()
        if self._kill is not None and self._kill <= time.monotonic():
            for worker in self._workers:
                worker.process.kill()

    def _announce(self) -> None:
        serving = sum(worker.ready for worker in self._workers)
        if self._ready is not None and serving == self._settings.workers:
            self._ready()
            self._ready = None

    def _gone(self, worker: Worker) -> None:
        worker.process.join()
        worker.line.close()
        self._workers.remove(worker)
        code = worker.process.exitcode or 0
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        if self._ending:
            # Asked to end before it could listen to the signal, it dies of it: nothing is lost.
            asked = (code == -signal.SIGTERM and not worker.ready) or code == REPLACE
            self._code = max(self._code, FAILED if code and not asked else 0)
        elif self._ready is not None:
            self._code = FAILED
            logger.error("worker %d ended by %s before it served", worker.process.pid, how)
            self._drain()
        else:
            logger.warning("worker %d ended by %s: another is started", worker.process.pid, how)
            self._due.append(max(time.monotonic(), worker.begun + PAUSE))

    def _end(self, numbers: bytes) -> None:
        """Drain at the first signal, give back jobs and end at the second, kill at the third."""
        if self._kill is not None:
            self._kill = time.monotonic()
        elif self._ending or len(numbers) > 1:
            self._code = 128 + numbers[-1]
            self._kill = time.monotonic() + LAST
            self._tell(AT_ONCE)
        else:
            logger.info("draining %d workers", len(self._workers))
        self._drain()

    def _tell(self, number: int) -> None:
        for worker in self._workers:
            if worker.process.pid is not None and worker.process.is_alive():
                os.kill(worker.process.pid, number)

    def _drain(self) -> None:
        if not self._ending:
            self._ending = True
            self._due.clear()
            self._listener.close()  # the workers have theirs, and close them when they are told
            for worker in self._workers:
                worker.process.terminate()


def heard(line: Connection) -> bool:
    """Whether a worker said that it serves; one that died before has closed its line."""
    try:
        return bool(line.recv())
    except EOFError:
        return False


def work(settings: Settings, listener: socket.socket, line: Connection) -> None:
    """What a worker does; runs in a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    form = begin_log(level=settings.level, objects=settings.json, access=settings.access)
    try:
        app = loaded(settings.app)
    except Exception as problem:
        logger.error("%s", one_line(problem))
        sys.exit(FAILED)
    form.secrets = tuple(secrets_of(app))
    parent = multiprocessing.parent_process()
    assert parent is not None  # noqa: S101  # this process was started by one
    sys.exit(
        serve(
            app,
            listener,
            settings,
            ready=lambda: line.send(True),
            lifeline=parent.sentinel,
        )
    )
