"""The listening socket: bound before anything else starts, and handed to the next process."""

from __future__ import annotations

import errno
import os
import socket
from typing import TYPE_CHECKING, Final

from duly.core.errors import DulyError
from duly.server.settings import BACKLOG

if TYPE_CHECKING:
    from duly.server.settings import ServerSettings

# Where a process finds the socket that the one before it listened on, as systemd passes them.
PASSED: Final = 3
PASSED_TO, PASSED_COUNT = "LISTEN_PID", "LISTEN_FDS"
REMEDIES = {
    errno.EADDRINUSE: "is in use: end the other program, or choose another with --port (0 = any)",
    errno.EACCES: "is not yours to use: choose one above 1023 with --port",
    errno.EADDRNOTAVAIL: "is no address of this machine: choose another with --host",
}


class CannotListen(DulyError):
    """The address cannot be listened on; the message says why, and what to do."""


def open_listener(settings: ServerSettings) -> socket.socket:
    """Bind and listen; connections queue from here on."""
    inherited = inherit_listener()
    if inherited is not None:
        return inherited
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as problem:
        reason = REMEDIES.get(problem.errno or 0)
        reason = reason or f"cannot be listened on: {problem.strerror or problem}"
        raise CannotListen(f"port {settings.port} of {settings.host} {reason}") from None


def inherit_listener() -> socket.socket | None:
    """Return the socket that the process before this one, or systemd, passed on."""
    passed = os.environ.pop(PASSED_TO, ""), os.environ.pop(PASSED_COUNT, "")
    if passed != (str(os.getpid()), "1"):
        return None
    listener = socket.socket(fileno=PASSED)
    if listener.family not in (socket.AF_INET, socket.AF_INET6):
        listener.detach()  # not ours to use, nor to close
        return None
    listener.set_inheritable(False)
    return listener


def pass_listener(listener: socket.socket) -> None:
    """Leave the socket to the program that replaces this one."""
    os.dup2(listener.fileno(), PASSED)
    os.set_inheritable(PASSED, True)  # also where it was that one already
    os.environ[PASSED_TO], os.environ[PASSED_COUNT] = str(os.getpid()), "1"


def base_url(host: str, port: int) -> str:
    """Return the address as a client would write it."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def reachable_host(host: str) -> str:
    """Return a host that leads here from this machine."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # named, not bound
