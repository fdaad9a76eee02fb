"""Processes that start in a moment: `subprocess.Popen`, but forked from a nursery.

See `tests.support.fork_server` for why. Where there can be none, or where something is asked for
that it does not know, the process is started as everybody starts it.
"""

import atexit
import inspect
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, AnyStr

from tests.support import fork_server

ROOT = Path(__file__).parents[3]
# Private, and the one place where a Popen makes a process: all else of it goes for any child.
EXECUTE, CLOSE = "_execute_child", "_close_pipe_fds"
PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
SIGNATURE = inspect.signature(getattr(subprocess.Popen, EXECUTE))
# What a process cannot be given here; the values are those of a Popen that asks for none of them.
UNKNOWN = {
    **dict.fromkeys(("executable", "preexec_fn", "gid", "gids", "uid"), None),
    **{"shell": False, "start_new_session": False, "umask": -1},
}


class Nursery:
    """The test's end of a nursery."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-W", "error", "-m", fork_server.__name__, str(number)],
                cwd=ROOT,
                pass_fds=[number],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        assert self._socket.recv(100) == fork_server.READY, "the nursery did not start"
        atexit.register(self.close)

    def ordered(self, order: fork_server.Order, files: Sequence[int]) -> int:
        """Have a process forked; its number."""
        socket.send_fds(self._socket, [json.dumps(order).encode()], files)
        return int(self._socket.recv(100))

    def close(self) -> None:
        """No more orders."""
        self._socket.close()
        self._process.wait()


@cache
def the_nursery() -> Nursery:
    return Nursery()


class Forked(subprocess.Popen[AnyStr]):
    """``[sys.executable, "-W", …, "-m", module, …]`` or ``-c``, forked from the nursery."""

    def _execute_child(self, *positional: Any) -> None:
        given: dict[str, Any] = SIGNATURE.bind(self, *positional).arguments
        words = understood(given)
        if words is None:
            getattr(super(), EXECUTE)(*positional)
            return
        theirs = [given[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        streams: list[int] = [n if file == -1 else file for n, file in enumerate(theirs)]
        order: fork_server.Order = {
            "words": words,
            "folder": os.fspath(given["cwd"] or Path.cwd()),
            "environment": dict(os.environ if given["env"] is None else given["env"]),
            "files": [*range(len(streams)), *given["pass_fds"]],
            "group": given["process_group"],
        }
        try:
            self.pid = the_nursery().ordered(order, [*streams, *given["pass_fds"]])
            self._child_created = True
        finally:
            getattr(self, CLOSE)(*(given[name] for name in PIPES))


def understood(given: Mapping[str, Any]) -> list[str] | None:
    """What to say to Python, where a nursery knows what it means."""
    if fork_server.CLONE is None or any(given[name] != usual for name, usual in UNKNOWN.items()):
        return None
    python, *words = map(str, given["args"])
    return words if python == sys.executable and fork_server.read(words) is not None else None


def run_forked(
    command: Sequence[str], *, timeout: float | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """`subprocess.run`, capturing text."""
    pipe = subprocess.PIPE
    with Forked(command, text=True, stdout=pipe, stderr=pipe, **options) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)
