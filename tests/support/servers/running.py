"""A server for a while: found by its own module, started here, and gone with the run.

Every kind of server is the same four steps: find the program, start it in a folder and on a port
of its own, hand out its address, stop it. The finding differs and lives in the server's module;
the rest is here. To add a kind, write a class with the shape of ``Server``.
"""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from . import keeper
from .accounts import Account, new_folder, unprivileged

LOOPBACK = "127.0.0.1"
DEADLINE = 60.0  # seconds until a server must answer; a slow disk takes ten for the first start
TRIES = 5  # a free port can be taken by somebody else before the server binds it


@dataclass(frozen=True, slots=True)
class Missing:
    """A server this machine cannot have, and why. Its text is a reason to skip a test."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"capability missing: {self.name} ({self.reason})"


class StartFailed(RuntimeError):
    """The server did not come up; the message ends with the tail of its log."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one server lives: its own folder, its own port, the account it runs as."""

    folder: Path
    port: int
    account: Account | None


class Server(Protocol):
    """A program that was found, and how to run it."""

    @property
    def name(self) -> str:
        """What the server is called, in messages and in its folder's name."""

    @property
    def stop_signal(self) -> signal.Signals:
        """The signal that ends it at once, for its data is thrown away."""

    @property
    def comes_back(self) -> bool:
        """Whether it is started again when it ends, unless the file `AWAY` is in its folder."""

    def commands(self, place: Place) -> list[list[str]]:
        """Write what it needs into the folder; return what to run, the server itself last."""

    def answers(self, place: Place) -> bool:
        """Whether it serves, and it is really this one that answers at the port."""


@dataclass(frozen=True, slots=True)
class Running:
    """A started server."""

    name: str
    place: Place
    process: subprocess.Popen[bytes]

    @property
    def ended(self) -> bool:
        """Whether the server stopped by itself."""
        return (self.place.folder / keeper.ENDED).exists() or self.process.poll() is not None

    def log(self) -> str:
        """The last lines the server wrote."""
        path = self.place.folder / keeper.LOG
        text = path.read_text(errors="replace") if path.exists() else ""
        return "\n".join(text.splitlines()[-40:])

    def stop(self) -> None:
        """Stop the server and wait until its folder is gone."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait()


@contextmanager
def running(server: Server) -> Iterator[Running]:
    """Start the server, and stop it at the end."""
    started = start(server)
    try:
        yield started
    finally:
        started.stop()


def start(server: Server) -> Running:
    """Start the server and wait until it answers, on another port if the first one is taken."""
    for _ in range(TRIES):
        attempt = _launch(server)
        try:
            if _comes_up(server, attempt):
                return attempt
            log = attempt.log()
        except BaseException:
            attempt.stop()
            raise
        attempt.stop()
        if "Address already in use" not in log:
            raise StartFailed(f"{server.name} did not start. The end of its log:\n{log}")
    raise StartFailed(f"{server.name} found its port taken {TRIES} times in a row")


@contextmanager
def kept(folder: Path) -> Iterator[None]:
    """Remove the folder at the end, however the run ends."""
    nothing_to_run: keeper.Order = {
        "folder": str(folder),
        "commands": [],
        "environment": {},
        "stop_signal": signal.SIGTERM,
        "comes_back": False,
        "uid": None,
        "gid": None,
    }
    process = _keep(nothing_to_run)
    try:
        yield
    finally:
        process.communicate()


def _launch(server: Server) -> Running:
    account = unprivileged()
    place = Place(new_folder(server.name, account), _free_port(), account)
    order: keeper.Order = {
        "folder": str(place.folder),
        "commands": server.commands(place),
        # Nothing of the caller's: PGDATA and its kind would steer the server, and the messages
        # that are looked for in its log are the untranslated ones.
        "environment": {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"},
        "stop_signal": server.stop_signal,
        "comes_back": server.comes_back,
        "uid": None if account is None else account.uid,
        "gid": None if account is None else account.gid,
    }
    return Running(server.name, place, _keep(order))


def _keep(order: keeper.Order) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", keeper.__file__, json.dumps(order)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _comes_up(server: Server, attempt: Running) -> bool:
    """Wait for the server to answer, to end, or to take too long."""
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        if attempt.ended:
            return False
        if _listens(attempt.place.port) and server.answers(attempt.place):
            return True
        time.sleep(0.02)
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOOPBACK, port)) == 0
