"""The server of a contender, and the load that meets it: real processes, always cleaned up."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from benchmarks.ingesting.contenders import SERVED
from benchmarks.ingesting.hosting import HOST
from benchmarks.ingesting.ours import HANDLERS, STORE
from benchmarks.processor import KNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.ingesting import generator, hosting
    from benchmarks.ingesting.contenders import Contender

ROOT = Path(__file__).parents[2]
# Not the folder for temporary files: on many machines it is memory, where a commit costs nothing.
DISK = ROOT / ".cache"
# In the first line that `duly serve` prints, when it serves.
BANNER = b" serves "
# Far longer than a start or an end takes here.
PATIENCE = 30.0


class ServerFailed(RuntimeError):
    """A server did not come up, or a load ended badly; the message ends with its log."""


@dataclass(frozen=True, slots=True)
class Served:
    """A contender that answers at a port, on a database of its own."""

    contender: Contender
    url: str
    port: int
    processes: tuple[int, ...] = ()  # the server's, and PostgreSQL's where it has one
    log: Path | None = None

    def meet(self, connections: int, seconds: float, warm_up: float, size: str) -> generator.Found:
        """Put a load on it."""
        order: generator.Order = {
            "port": self.port,
            "connections": connections,
            "seconds": seconds,
            "warm_up": warm_up,
            "size": size,
            "types": self.contender.handlers,
            "processes": list(self.processes),
        }
        ended = subprocess.run(
            [sys.executable, "-m", "benchmarks.ingesting.generator", json.dumps(order)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=seconds + warm_up + 2 * PATIENCE,
            check=False,
        )
        if ended.returncode != 0:
            raise ServerFailed(f"the load on {self.contender} failed:\n{ended.stderr}")
        return cast("generator.Found", json.loads(ended.stdout))


@contextmanager
def serving(contender: Contender, url: str, *, postmaster: int | None = None) -> Iterator[Served]:
    """Start the contender's server, wait until it answers, and end it."""
    port = free_port()
    DISK.mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile("w+", dir=DISK, prefix="ingest-", suffix=".log") as log:
        process = start(contender, url, port, log)
        try:
            if not (answers(process, port) and announced(contender, process, Path(log.name))):
                log.seek(0)
                raise ServerFailed(f"the server of {contender} did not start:\n{log.read()}")
            processes = (process.pid,) if postmaster is None else (process.pid, postmaster)
            yield Served(contender, url, port, processes if KNOWN else (), Path(log.name))
        finally:
            end(process)


def start(contender: Contender, url: str, port: int, log: IO[str]) -> subprocess.Popen[bytes]:
    """Start `duly serve` as it is shipped, or an application in the server that all others have."""
    if contender.peer == SERVED:
        arguments = ["duly", "serve", "benchmarks.ingesting.served:app", "--no-worker"]
        arguments += ["--host", HOST, "--port", str(port)]
        if contender.processes > 1:
            arguments += ["--workers", str(contender.processes)]
    else:
        order: hosting.Order = {
            "store": contender.store,
            "peer": contender.peer,
            "pool": contender.pool,
            "url": url,
            "server": contender.server,
            "port": port,
        }
        arguments = ["benchmarks.ingesting.hosting", json.dumps(order)]
    return subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env={**os.environ, STORE: url, HANDLERS: str(contender.handlers)},
    )


def answers(process: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until the port takes connections; a server that ended never will."""
    deadline = time.monotonic() + PATIENCE
    while not listens(port):
        if process.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def announced(contender: Contender, process: subprocess.Popen[bytes], log: Path) -> bool:
    """Wait until `duly serve` says that all its processes serve; nothing else says so."""
    deadline = time.monotonic() + PATIENCE
    while contender.peer == SERVED and BANNER not in log.read_bytes():
        if process.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end, and kill it if it does not."""
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0
