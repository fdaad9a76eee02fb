"""Outlives its starter just long enough to stop a server and remove its folder.

A test run can end in ways that run no ``finally``: SIGTERM, a crash, kill -9. So no server is a
child of the run. The keeper is: it holds the server, in a session of its own that Ctrl-C does not
reach, and reads standard input, which the run never writes to. When the run ends, however it
ends, the kernel closes the pipe, the read returns nothing, and the keeper cleans up.

Standard library only and run by its path, so that it starts in a few milliseconds.
"""

import json
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TypedDict

ENDED = "ended"  # appears in the folder when the server stopped by itself
AWAY = "away"  # as long as it is in the folder, a server that comes back does not
LOG = "log"
GLANCE = 0.1  # seconds between looks at the server; nobody waits for this on the good path
GRACE = 10.0  # seconds a server gets to stop before it is killed


class Order(TypedDict):
    """What to run: all commands but the last must end well, the last one is the server."""

    folder: str
    commands: list[list[str]]
    environment: dict[str, str]
    stop_signal: int
    comes_back: bool  # whether it is started again when it ends, as by a service manager
    uid: int | None
    gid: int | None


class Released(Exception):
    """The run that wanted the server is gone."""


def release(_signal: int, _frame: FrameType | None) -> None:
    raise Released


def launch(order: Order, command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start one command as the order's account, its output appended to the folder's log."""
    with (Path(order["folder"]) / LOG).open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=order["folder"],
            env=order["environment"],
            user=order["uid"],
            group=order["gid"],
            extra_groups=None if order["gid"] is None else [],
        )


def watch(child: subprocess.Popen[bytes]) -> int:
    """Wait for the child's own end; raise ``Released`` as soon as the run is gone."""
    while child.poll() is None:
        rest()
    return child.returncode


def rest() -> None:
    """Let a moment pass; raise ``Released`` as soon as the run is gone."""
    readable, _, _ = select.select([sys.stdin], [], [], GLANCE)
    if readable and not sys.stdin.buffer.read(1):
        raise Released


def stop(child: subprocess.Popen[bytes], stop_signal: int) -> None:
    if child.poll() is not None:
        return
    child.send_signal(stop_signal)
    try:
        child.wait(GRACE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def remove(folder: Path) -> None:
    """Remove the folder, again if a last writer put something into it meanwhile."""
    for _ in range(50):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(GLANCE)


def ran(order: Order, command: Sequence[str]) -> int:
    """Run one command to its end, or to that of the run."""
    child = launch(order, command)
    try:
        return watch(child)
    finally:
        stop(child, order["stop_signal"])


def serve(order: Order, server: Sequence[str]) -> None:
    """Run the server until it ends; again and again, if it is one that comes back."""
    ran(order, server)
    while order["comes_back"]:
        while (Path(order["folder"]) / AWAY).exists():
            rest()
        ran(order, server)


def keep(order: Order) -> None:
    """Run the commands in turn until one fails, the server ends, or the run is gone."""
    *before, server = order["commands"] or [[]]
    if server and all(ran(order, command) == 0 for command in before):
        serve(order, server)
    # The folder stays until the run lets go: it wants to read the log first.
    (Path(order["folder"]) / ENDED).touch()
    sys.stdin.buffer.read()


def main() -> None:
    order: Order = json.loads(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, release)
    try:
        keep(order)
    except Released:
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        remove(Path(order["folder"]))


if __name__ == "__main__":
    main()
