"""What surrounds a worker in its own process: out of reach of Ctrl-C, and never left behind.

It ends when the line goes dead, also if the parent was killed; it then removes the folder in the
parent's place. A worker that is stopped at that moment could not notice, so Linux is asked to wake
it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
from typing import TYPE_CHECKING

from duly.tools.demo import worker

if TYPE_CHECKING:
    from duly.tools.demo.line import Line
    from duly.tools.demo.place import Place

# From linux/prctl.h.
PR_SET_PDEATHSIG = 1


def run(parent: int, place: Place, line: Line) -> None:
    """Work until the line goes dead."""
    detach(place)
    wake_when_the_parent_ends()
    line.keep_workers_ends()
    try:
        worker.serve(place.database, line.deliveries_to_read, line.answers_to_write)
    finally:
        if os.getppid() != parent and not place.keep:
            # Every worker does this at the same time, so what is already gone is no error.
            shutil.rmtree(place.folder, ignore_errors=True)


def detach(place: Place) -> None:
    """Leave the parent's terminal alone: no Ctrl-C from it, no output to it."""
    os.setpgid(0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    errors = os.open(place.errors, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for ours, standard in ((nothing, 0), (nothing, 1), (errors, 2)):
        os.dup2(ours, standard)
        os.set_inheritable(standard, True)


def wake_when_the_parent_ends() -> None:
    """Ask for SIGCONT at the parent's death. Elsewhere than on Linux, orphans get it anyway."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGCONT))
