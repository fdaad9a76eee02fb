"""The server of a contender, and the load that meets it: real processes, always cleaned up."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from benchmarks.ingesting.hosting import HOST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.ingesting import generator, hosting
    from benchmarks.ingesting.contenders import Contender

ROOT = Path(__file__).parents[2]
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

    def meet(self, connections: int, seconds: float, warm_up: float, size: str) -> generator.Found:
        """Put a load on it."""
        order: generator.Order = {
            "port": self.port,
            "connections": connections,
            "seconds": seconds,
            "warm_up": warm_up,
            "size": size,
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
def serving(contender: Contender, url: str) -> Iterator[Served]:
    """Start the contender's server, wait until it answers, and end it."""
    order: hosting.Order = {
        "store": contender.store,
        "peer": contender.peer,
        "pool": contender.pool,
        "url": url,
        "server": contender.server,
        "port": free_port(),
    }
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.ingesting.hosting", json.dumps(order)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            if not answers(process, order["port"]):
                log.seek(0)
                raise ServerFailed(f"the server of {contender} did not start:\n{log.read()}")
            yield Served(contender, url, order["port"])
        finally:
            end(process)


def answers(process: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until the port takes connections; a server that ended never will."""
    deadline = time.monotonic() + PATIENCE
    while not listens(port):
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
