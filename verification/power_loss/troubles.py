"""Two more things that disks do to a PostgreSQL server at work: be full, and fail to sync.

Both end in a server that gives up in the middle of everything. Nothing may be acknowledged that is
not there afterwards, and whoever asked meanwhile must have been told to come again.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
from tests.support.servers.running import Missing

from verification.power_loss.tracing import find_strace
from verification.power_loss.unproven import Unproven

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from verification.power_loss.cluster import Server
    from verification.power_loss.traffic import Traffic

PATIENCE = 90.0
CHUNK = 1024 * 1024
MARK = ("CREATE TABLE IF NOT EXISTS segments (n INT)", "INSERT INTO segments VALUES (1)")
# Which sync of which process fails is left to chance; the third of each is soon enough.
FAILING = "inject=fsync,fdatasync:error=EIO:when=3"


def full_disk(server: Server, traffic: Traffic, folder: Path) -> None:
    """There is no space left, until somebody was refused; then there is some again."""
    before = traffic.refused
    with traffic.flowing(), filled(folder):

        def felt() -> bool:
            use_up_log(server)
            return traffic.refused > before

        until(felt, "the disk was full, and nobody was refused")


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """A file that takes what is left of the disk."""
    path, size = folder / "filler", 0
    with path.open("wb") as filler:
        try:
            while True:
                os.posix_fallocate(filler.fileno(), size, CHUNK)
                size += CHUNK
        except OSError as problem:
            if problem.errno != errno.ENOSPC:
                raise
    try:
        yield
    finally:
        path.unlink()


def use_up_log(server: Server) -> None:
    """Make the server need a new segment of its log; it may be down already."""
    try:
        server.run(MARK)
        server.run(["SELECT pg_switch_wal()"])
    except psycopg.Error:
        time.sleep(0.05)


def failing_syncs(server: Server, traffic: Traffic) -> None:
    """A sync fails in the middle of the work; PostgreSQL answers that with a crash of its own."""
    strace = find_strace()
    if isinstance(strace, Missing):
        raise Unproven(str(strace))
    before = panics(server.log)
    with traffic.flowing():
        command = [strace, "-f", "-qq", "-o", os.devnull, "-e", FAILING]
        command += ["-e", "trace=fsync,fdatasync", "-p", ",".join(map(str, server.pids()))]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as tracer:
            try:
                until(lambda: panics(server.log) > before, "syncs failed, and the server went on")
            finally:
                tracer.send_signal(signal.SIGINT)
        until(server.answers, "the server did not come back after its crash")


def panics(log: Path) -> int:
    """How often the server has given up so far."""
    return log.read_text(errors="replace").count("PANIC:")


def until(felt: Callable[[], bool], otherwise: str) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + PATIENCE
    while not felt():
        if time.monotonic() > deadline:
            raise Unproven(otherwise)
        time.sleep(0.01)
