"""What every process of a storm inherits: settings, sockets, shared counters; and its main.

The processes are out of reach of Ctrl-C, write their errors into the folder, and end when the
process that started them does.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import mmap
import os
import signal
import sys
from dataclasses import dataclass
from enum import IntEnum, auto
from typing import TYPE_CHECKING

from duly.server.shutdown import leave_at_once

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    from duly.demo.settings import Settings

DOWNSTREAM = "downstream"
# From linux/prctl.h.
PR_SET_PDEATHSIG = 1
# The exit code of duly's commands where the database is away when they begin, or while they drain.
GAVE_UP = 1
FAILED = 70
# Processes there can be; each has two counters of its own.
SLOTS = 64


class CounterIndex(IntEnum):
    """Which number it is. Each is written by one process only."""

    # Written by the sender.
    SENT = 0
    ACCEPTED = auto()
    DUPLICATE = auto()
    CONFLICT = auto()
    REFUSED = auto()
    UNAVAILABLE = auto()
    NO_REPLY = auto()
    EVENTS = auto()
    UNACKNOWLEDGED = auto()
    STREAM_OVER = auto()
    SENDER_DONE = auto()
    # Written by the orchestrator.
    END_STREAM = auto()
    ALL_FAULTS_SEEN = auto()
    CALM = auto()  # nothing misbehaves on purpose any more
    ENDED = auto()  # events that are done, or dead
    # Written by the proxy and the receiver downstream.
    REPLIES_LOST = auto()
    REQUESTS_LOST = auto()
    RECEIPTS = auto()
    # From here on each process has its own.
    OWN = auto()


def up_index(slot: int) -> int:
    """Return the counter in which a process writes its pid once it works."""
    return CounterIndex.OWN + 2 * slot


def wrapping_index(slot: int) -> int:
    """Return the counter of the gifts that a worker is wrapping."""
    return CounterIndex.OWN + 2 * slot + 1


class SharedCounters:
    """Counters in memory that forked processes share."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 8 * (len(CounterIndex) + 2 * SLOTS))
        self._numbers = memoryview(self._memory).cast("Q")

    def __getitem__(self, index: int) -> int:
        return self._numbers[index]

    def __setitem__(self, index: int, value: int) -> None:
        self._numbers[index] = value

    def add(self, index: int, more: int = 1) -> None:
        """Add to a counter."""
        self._numbers[index] += more


@dataclass(frozen=True, slots=True)
class StormContext:
    """What every process inherits."""

    settings: Settings
    shared: SharedCounters
    ingress: socket.socket
    """Where deliveries arrive: all receivers share it, so no connection is lost with one."""
    downstream: socket.socket
    proxy: socket.socket
    lifeline: tuple[int, int]
    """A pipe that carries no bytes: it closes when the orchestrator ends."""

    @property
    def downstream_url(self) -> str:
        """Return where messages go."""
        return f"http://127.0.0.1:{self.downstream.getsockname()[1]}"

    def mark_up(self, slot: int) -> None:
        """Record that this process has begun to work."""
        self.shared[up_index(slot)] = os.getpid()

    def file(self, name: str) -> Path:
        """Return a file of this storm."""
        return self.settings.folder / name


def run_process(context: StormContext, name: str, work: Callable[[StormContext], int]) -> None:
    """Run the work of a forked process, and exit."""
    detach(context, name)
    gc.unfreeze()
    code = FAILED
    try:
        code = work(context)
    except BaseException:
        logging.getLogger("duly.storm").exception("%s has failed", name)
    leave_at_once(code)


def detach(context: StormContext, name: str) -> None:
    """Leave the terminal's process group, log into a file, and end with the parent."""
    os.setpgid(0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    log = context.file(f"{name}.log")
    errors = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for ours, standard in ((nothing, 0), (nothing, 1), (errors, 2)):
        os.dup2(ours, standard)
    os.close(context.lifeline[1])
    # Other systems have only the lifeline; and the receiver downstream clears up the folder.
    if sys.platform == "linux" and name != DOWNSTREAM:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(message)s"))
    handler.addFilter(RepeatFilter())
    logging.getLogger("duly").handlers = [handler]
    logging.getLogger("duly").setLevel(logging.WARNING)


class RepeatFilter(logging.Filter):
    """Passes the first few records of each kind: a storm repeats them a million times."""

    MOST = 5

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[str, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True for one of the first."""
        kind = str(record.msg)
        self._seen[kind] = self._seen.get(kind, 0) + 1
        return self._seen[kind] <= self.MOST or record.levelno >= logging.CRITICAL
