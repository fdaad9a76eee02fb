"""What every process of a storm inherits, and how each of them begins and ends.

They are out of reach of Ctrl-C, write their complaints into the folder, and end when the process
that started them does.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.demo.shared_counters import up_index
from duly.server.shutdown import leave_at_once

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    from duly.demo.settings import Settings
    from duly.demo.shared_counters import SharedCounters

DOWNSTREAM = "downstream"
# From linux/prctl.h.
PR_SET_PDEATHSIG = 1
# What duly's commands return where the database is away when they begin, or while they drain.
GAVE_UP = 1
FAILED = 70


@dataclass(frozen=True, slots=True)
class StormContext:
    """What every process inherits."""

    settings: Settings
    shared: SharedCounters
    ingress: socket.socket
    """Where deliveries arrive: all processes that receive share it, so none is lost with one."""
    downstream: socket.socket
    proxy: socket.socket
    lifeline: tuple[int, int]
    """A pipe that nobody writes to: its end is the end of whoever directs the storm."""

    @property
    def downstream_url(self) -> str:
        """Where messages go."""
        return f"http://127.0.0.1:{self.downstream.getsockname()[1]}"

    def mark_up(self, slot: int) -> None:
        """Say that this process has begun to work."""
        self.shared[up_index(slot)] = os.getpid()

    def file(self, name: str) -> Path:
        """A file of this storm."""
        return self.settings.folder / name


def run_process(context: StormContext, name: str, work: Callable[[StormContext], int]) -> None:
    """Do the work of one process, to its end."""
    detach(context, name)
    gc.unfreeze()
    code = FAILED
    try:
        code = work(context)
    except BaseException:
        logging.getLogger("duly.storm").exception("%s has failed", name)
    leave_at_once(code)


def detach(context: StormContext, name: str) -> None:
    """Leave the terminal alone, and do not outlive the parent."""
    os.setpgid(0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    log = context.file(f"{name}.log")
    errors = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for ours, standard in ((nothing, 0), (nothing, 1), (errors, 2)):
        os.dup2(ours, standard)
    os.close(context.lifeline[1])
    # Elsewhere only the lifeline tells; and one of them is needed to clear up.
    if sys.platform == "linux" and name != DOWNSTREAM:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(message)s"))
    handler.addFilter(RepeatFilter())
    logging.getLogger("duly").handlers = [handler]
    logging.getLogger("duly").setLevel(logging.WARNING)


class RepeatFilter(logging.Filter):
    """Lets the first few records of each kind pass: a storm says the same a million times."""

    MOST = 5

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[str, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is one of the first."""
        kind = str(record.msg)
        self._seen[kind] = self._seen.get(kind, 0) + 1
        return self._seen[kind] <= self.MOST or record.levelno >= logging.CRITICAL
