"""Several processes on one socket: started together, replaced when they die, drained together.

Each imports the application for itself: only the socket and the database are shared, so no
connection is ever used by two processes. If this process is killed, the others notice and drain.
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

from duly.app.output import one_line
from duly.server.logging import load_app_and_log
from duly.server.serve import ENDED, serve
from duly.server.shutdown import AT_ONCE, FAILED, LAST, REPLACE, catch_signals

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from multiprocessing.context import SpawnProcess

    from duly.server.settings import ServerSettings
    from duly.server.shutdown import SignalPipe

logger = logging.getLogger("duly.serve")
# Seconds from one start to the next of a process that dies at once.
PAUSE = 1.0
SPAWN = multiprocessing.get_context("spawn")


@dataclass(eq=False, slots=True)
class ServerProcess:
    """One process, and the pipe on which it reports that it serves."""

    process: SpawnProcess
    pipe: Connection
    begun: float
    ready: bool = False


class ProcessSupervisor:
    """The processes of one server."""

    def __init__(
        self, settings: ServerSettings, listener: socket.socket, ready: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._listener = listener
        self._ready: Callable[[], None] | None = ready
        self._processes: list[ServerProcess] = []
        self._restart_times: list[float] = []
        self._ending = False
        # When processes that were told to end at once are killed.
        self._kill_at: float | None = None
        self._code = 0

    def run(self) -> int:
        """Keep the processes running until a signal; return the exit code."""
        with catch_signals() as signals:
            for _ in range(self._settings.workers):
                self._start_process()
            while self._processes or self._restart_times:
                self._handle_next_event(signals)
        if self._code == 0:
            logger.info(ENDED)
        return self._code

    def _start_process(self) -> None:
        ours, theirs = SPAWN.Pipe(duplex=False)
        process = SPAWN.Process(
            target=run_server_process, args=(self._settings, self._listener, theirs)
        )
        # Ctrl-C reaches every process of a terminal; only this one is to act on it.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        theirs.close()
        self._processes.append(ServerProcess(process, ours, time.monotonic()))

    def _handle_next_event(self, signals: SignalPipe) -> None:
        """Wait for a signal, a report, an exit or a deadline, and act on it."""
        deadlines = [*self._restart_times, *([] if self._kill_at is None else [self._kill_at])]
        pause = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
        pipes = [one.pipe for one in self._processes if not one.ready]
        exits = [one.process.sentinel for one in self._processes]
        seen = set(wait([signals.reader, *pipes, *exits], pause))
        if signals.reader in seen and (numbers := signals.read_signals()):
            self._handle_signals(numbers)
        for one in list(self._processes):
            if one.pipe in seen and not one.ready:
                one.ready = has_reported_ready(one.pipe)
            if one.process.sentinel in seen:
                self._handle_exit(one)
        self._announce()
        for due in [due for due in self._restart_times if due <= time.monotonic()]:
            self._restart_times.remove(due)
            self._start_process()
        if self._kill_at is not None and self._kill_at <= time.monotonic():
            for one in self._processes:
                one.process.kill()

    def _announce(self) -> None:
        serving = sum(one.ready for one in self._processes)
        if self._ready is not None and serving == self._settings.workers:
            self._ready()
            self._ready = None

    def _handle_exit(self, ended: ServerProcess) -> None:
        ended.process.join()
        ended.pipe.close()
        self._processes.remove(ended)
        pid, code = ended.process.pid, ended.process.exitcode or 0
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        if self._ending:
            # SIGTERM kills a process that has no handler for it yet: nothing is lost.
            asked = (code == -signal.SIGTERM and not ended.ready) or code == REPLACE
            self._code = max(self._code, FAILED if code and not asked else 0)
        elif self._ready is not None:
            self._code = FAILED
            logger.error("worker %d ended by %s before it served", pid, how)
            self._drain()
        else:
            logger.warning("worker %d ended by %s: another is started", pid, how)
            self._restart_times.append(max(time.monotonic(), ended.begun + PAUSE))

    def _handle_signals(self, numbers: bytes) -> None:
        """Drain at the first signal, give back jobs and end at the second, kill at the third."""
        if self._kill_at is not None:
            self._kill_at = time.monotonic()
        elif self._ending or len(numbers) > 1:
            self._code = 128 + numbers[-1]
            self._kill_at = time.monotonic() + LAST
            self._send_signal(AT_ONCE)
        else:
            logger.info("draining %d workers", len(self._processes))
        self._drain()

    def _send_signal(self, number: int) -> None:
        for one in self._processes:
            if one.process.pid is not None and one.process.is_alive():
                os.kill(one.process.pid, number)

    def _drain(self) -> None:
        if not self._ending:
            self._ending = True
            self._restart_times.clear()
            self._listener.close()  # each process has its own copy, and closes it when it drains
            for one in self._processes:
                one.process.terminate()


def has_reported_ready(pipe: Connection) -> bool:
    """Return True if a process reported that it serves; one that died has closed its pipe."""
    try:
        return bool(pipe.recv())
    except EOFError:
        return False


def run_server_process(settings: ServerSettings, listener: socket.socket, pipe: Connection) -> None:
    """Serve in a process of its own, and exit."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    try:
        app = load_app_and_log(
            settings.app, level=settings.level, as_json=settings.json, access=settings.access
        )
    except Exception as problem:
        logger.error("%s", one_line(problem))
        sys.exit(FAILED)
    parent = multiprocessing.parent_process()
    assert parent is not None  # noqa: S101  # this process was started by one
    sys.exit(
        serve(
            app,
            listener,
            settings,
            ready=lambda: pipe.send(True),
            lifeline=parent.sentinel,
        )
    )
