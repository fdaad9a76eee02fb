"""Processor time of other processes, as Linux counts it: a server's own, and PostgreSQL's.

A process is asked for with all that it started, those that ended included. Where there is no
``/proc``, or the server runs on another machine, there is no figure.
"""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.connection import Connection

PROCESSES = "/proc"
KNOWN = Path(PROCESSES, "self", "stat").exists()
TICKS = os.sysconf("SC_CLK_TCK")
# It starts at once and knows all that it needs.
FORK = multiprocessing.get_context("fork")


class Usage(NamedTuple):
    """What the kernel says of one process."""

    parent: int
    own: float  # seconds, of all its threads
    ended: float  # seconds, of its children that ended


def spent(roots: Sequence[int]) -> list[float]:
    """Seconds of processor time that each of these processes and its descendants have used."""
    if not roots:
        return []
    usages = dict(usage_of_all())
    children: dict[int, list[int]] = {}
    for process, usage in usages.items():
        children.setdefault(usage.parent, []).append(process)
    return [
        sum(usages[one].own + usages[one].ended for one in below(root, children) if one in usages)
        for root in roots
    ]


class Meter:
    """Reads processor times in a process of its own, so that what asks does not wait.

    A reading takes milliseconds, for there is a file for each process of the machine.
    """

    def __init__(self, roots: Sequence[int]) -> None:
        self._asked, told = FORK.Pipe()
        self._process = FORK.Process(target=answer, args=(told, roots), daemon=True)
        self._process.start()

    def read(self) -> None:
        """Ask for a reading."""
        self._asked.send_bytes(b"read")

    def readings(self, number: int) -> list[list[float]]:
        """So many that were asked for, in their order; the meter ends."""
        found = [self._asked.recv() for _ in range(number)]
        self._process.kill()
        self._process.join()
        return found


def answer(told: Connection, roots: Sequence[int]) -> None:
    """The meter's process."""
    while told.recv_bytes():
        told.send(spent(roots))


def below(root: int, children: dict[int, list[int]]) -> Iterator[int]:
    """A process and its descendants."""
    waiting = [root]
    while waiting:
        process = waiting.pop()
        yield process
        waiting += children.get(process, ())


def usage_of_all() -> Iterator[tuple[int, Usage]]:
    """Every process that is there."""
    for folder in os.scandir(PROCESSES):
        if folder.name.isdecimal():
            try:
                yield int(folder.name), usage_of(int(folder.name))
            except OSError:  # it ended meanwhile
                continue


def usage_of(process: int) -> Usage:
    """One process; to the nanosecond where it has one thread, else to a tick of the kernel."""
    fields = read(f"{PROCESSES}/{process}/stat").rpartition(b")")[2].split()
    user, system, waited_user, waited_system = map(int, fields[11:15])
    own = (user + system) / TICKS
    if fields[17] == b"1":
        own = precise(process, own)
    return Usage(int(fields[1]), own, (waited_user + waited_system) / TICKS)


def precise(process: int, rounded: float) -> float:
    """The time of the only thread; as rounded where the kernel does not tell it."""
    try:
        return int(read(f"{PROCESSES}/{process}/schedstat").split()[0]) / 1e9
    except (OSError, IndexError):
        return rounded


def read(path: str) -> bytes:
    """A small file of the kernel's; what measures reads hundreds, and waits meanwhile."""
    opened = os.open(path, os.O_RDONLY)
    try:
        return os.read(opened, 4096)
    finally:
        os.close(opened)


def postmaster_of(url: str) -> int | None:
    """The process that started the server's others; None if it is not on this machine."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT pg_backend_pid(), current_database()").fetchone()
        if row is None:
            raise AssertionError("a question without condition has one row")
        backend, database = row
        try:
            # The process of that number may be no server's: the title of one names its database.
            title = read(f"{PROCESSES}/{backend}/cmdline")
            return usage_of(backend).parent if database.encode() in title else None
        except OSError:
            return None
