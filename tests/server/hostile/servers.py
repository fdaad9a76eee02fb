"""The test's end of a server process: its address, its log and its memory."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.server.hostile.application import STORE
from tests.server.hostile.wire import exchange, request
from tests.support.processes.forked import Forked
from tests.support.processes.leading import PATIENCE, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.server.hostile.wire import Address

APPLICATION = "tests.server.hostile.application:application"
MEGABYTE = 1024 * 1024
# What a log holds after an unexpected error.
ALARMS = re.compile(r"Traceback|Exception in ASGI|without starting response|was never awaited")


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    address: Address
    process: subprocess.Popen[bytes]
    log_file: Path

    def memory(self, line: str = "VmRSS") -> int:
        """The bytes that it has in memory now; ``VmHWM`` is the most it ever had."""
        text = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(text.partition(f"{line}:")[2].split()[0]) * 1024

    def forget_peak(self) -> None:
        """Let the most it ever had begin with now."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5", encoding="utf-8")

    def descriptors(self) -> int:
        """How many files and sockets it has open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    @property
    def log(self) -> str:
        """Everything it has said so far."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def alarms(self) -> list[str]:
        """What must never stand in a log."""
        return ALARMS.findall(self.log)

    def check_alive(self) -> None:
        """It lives, and it has said nothing alarming."""
        assert self.process.poll() is None, self.log[-4000:]
        assert not self.alarms(), self.log[-8000:]


@contextmanager
def serving(
    store: str,
    folder: Path,
    *,
    server: str = "duly",
    factory: str = APPLICATION,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Serve an application until the block ends."""
    log_file = folder / f"{server}.log"
    with socket.socket() as listener, log_file.open("wb") as log:
        listener.bind(("127.0.0.1", 0))
        listener.listen(4096)
        address: Address = listener.getsockname()
        process: subprocess.Popen[bytes] = Forked(
            [
                sys.executable,
                "-m",
                "tests.server.hostile.serving",
                server,
                str(listener.fileno()),
                factory,
            ],
            cwd=ROOT,
            env=os.environ | {STORE: store} | dict(settings or {}),
            pass_fds=[listener.fileno()],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    running = Server(address, process, log_file)
    try:
        started = exchange(address, request("GET", "/healthz", [("connection", "close")]))
        assert [answer.status for answer in started] == [200], running.log
        yield running
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            process.wait()
