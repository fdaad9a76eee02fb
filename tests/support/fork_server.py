"""Where processes are forked from: `python -W error -m tests.support.fork_server SOCKET`.

To start Python and to import duly and a driver takes half a second of a core, hundreds of times in
a run. The nursery has done both, and forks for each order. What comes of it is a process like any
other, killed and stopped like any other, with the files and the environment that were ordered. Its
parent is the one who ordered it, not the nursery: only so it can be told how the process ended.
"""

import ctypes
import fcntl
import gc
import json
import os
import platform
import runpy
import signal
import socket
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import NamedTuple, TypedDict

# The kernel's number for a fork that can name another parent.
CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine()) if sys.platform == "linux" else None
CLONE_PARENT = 0x8000
IMPORTED = (
    "duly", "duly.aio", "duly.worker.worker", "duly.cli.main", "psycopg", "psycopg_pool",
    "uvicorn",
)  # fmt: skip
# What Python keeps to itself where nobody asks for more.
UNSAID = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
OPTIONS = "_processoptions"  # what Python does with every -W
READY = b"ready"
LARGEST = 1 << 20  # bytes of an order: most of it is the environment
FREE = 200  # numbers of files from here on are used by nobody


class Order(TypedDict):
    """The command line of Python, and as which numbers the files that come along are wanted."""

    words: Sequence[str]
    folder: str
    environment: dict[str, str]
    files: Sequence[int]
    group: int  # negative for that of everybody


class Program(NamedTuple):
    """What a command line says."""

    warnings: list[str]
    kind: str
    text: str
    arguments: list[str]


def read(words: Sequence[str]) -> Program | None:
    """Read a command line: any -W, then -m or -c; None where there is anything else."""
    warned, rest = [], list(words)
    while rest[:1] == ["-W"]:
        warned.append(rest[1])
        rest = rest[2:]
    if rest[:1] not in (["-m"], ["-c"]):
        return None
    kind, text, *arguments = rest
    return Program(warned, kind, text, arguments)


def fork_for_parent() -> int:
    """`os.fork`, but the child is one of our parent's: a sibling."""
    ctypes.pythonapi.PyOS_BeforeFork()
    child: int = ctypes.PyDLL(None).syscall(CLONE, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    if child < 0:
        raise OSError("no process could be forked")
    return child


def born(orders: socket.socket) -> tuple[Order, list[int]] | None:
    """Fork for each order; returns the order in each child, and None when nobody orders more."""
    while True:
        text, files, _, _ = socket.recv_fds(orders, LARGEST, FREE)
        if not text:
            return None
        child = fork_for_parent()
        if child == 0:
            return json.loads(text), files
        for file in files:
            os.close(file)
        orders.send(str(child).encode())


def settle(order: Order, files: Sequence[int]) -> None:
    """Have no other files and no other environment than was ordered."""
    moved = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, FREE) for file in files]
    for file in files:
        os.close(file)
    for file, wanted in zip(moved, order["files"], strict=True):
        os.dup2(file, wanted)
        os.close(file)
    if order["group"] >= 0:
        os.setpgid(0, order["group"])
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])


def live(words: Sequence[str], folder: str) -> None:
    """Run the program as this process."""
    program = read(words)
    assert program is not None, words
    sys.orig_argv = [sys.executable, *words]
    warnings.resetwarnings()
    for kind in UNSAID:
        warnings.simplefilter("ignore", kind)
    warnings.filterwarnings("default", category=DeprecationWarning, module="__main__")
    sys.warnoptions[:] = program.warnings
    getattr(warnings, OPTIONS)(sys.warnoptions)
    if program.kind == "-m":
        sys.path[0] = folder
        sys.argv = [program.text, *program.arguments]
        runpy.run_module(program.text, run_name="__main__", alter_sys=True)
        return
    sys.path[0] = ""
    sys.argv = ["-c", *program.arguments]
    main = sys.modules["__main__"] = ModuleType("__main__")
    exec(program.text, main.__dict__)


def main(number: str) -> None:
    """Have everything imported, then wait for orders."""
    for name in IMPORTED:
        import_module(name)
    gc.freeze()  # no child has to copy what the nursery will never change
    with socket.socket(fileno=int(number)) as orders:
        orders.send(READY)
        found = born(orders)
    if found is not None:
        order, files = found
        settle(order, files)
        live(order["words"], order["folder"])


if __name__ == "__main__":
    main(*sys.argv[1:])
