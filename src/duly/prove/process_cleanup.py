"""End the processes that a proof has started: databases are restored when all are gone."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from duly.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

# Seconds for a process that was killed to be gone; the system may have to write for it first.
GOING = 30.0


class ProcessInfo(NamedTuple):
    """A process as the system tells of it."""

    number: int
    parent: int
    session: int


def end_started_by(server: int) -> None:
    """Kill every process of a server's session or descent but itself, and see them gone.

    Where the system does not tell which processes there are, none is seen.
    """
    until = time.monotonic() + GOING
    while found := started_by(server):
        if time.monotonic() > until:
            raise UsageError(
                f"process {found[0]} of the proof cannot be ended, so that nothing was put back: "
                "the state before lies beside each database. Wait until it is gone, and choose"
            )
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.002)


def started_by(server: int) -> list[int]:
    """The processes of a server's session, and its descendants in others."""
    there = {one.number: one for one in list_processes()}
    return [
        one.number
        for one in there.values()
        if one.number != server and (one.session == server or descends(one, server, there))
    ]


def descends(one: ProcessInfo, server: int, there: dict[int, ProcessInfo]) -> bool:
    """Whether a process descends from the server; orphans become the server's own children."""
    seen: set[int] = set()
    while one.parent != server:
        if one.parent in seen or one.parent not in there:
            return False
        seen.add(one.parent)
        one = there[one.parent]
    return True


def list_processes() -> Iterator[ProcessInfo]:
    """Every process that has not ended; one that only waits to be asked for its end has."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # Its name is in brackets, and may hold anything.
            state, parent, _, session = (
                file.read_text(errors="replace").rpartition(")")[2].split()[:4]
            )
            if state not in "ZX":
                yield ProcessInfo(int(file.parent.name), int(parent), int(session))
