"""The socket on which deliveries arrive: bound before anything else is promised."""

from __future__ import annotations

import errno
import os
import socket
from typing import TYPE_CHECKING

from duly.core.errors import DulyError
from duly.server.settings import BACKLOG
from duly.server.shutdown import PASSED, PASSED_COUNT, PASSED_TO

if TYPE_CHECKING:
    from duly.server.settings import ServerSettings

REMEDIES = {
    errno.EADDRINUSE: "is in use: end the other program, or choose another with --port (0 = any)",
    errno.EACCES: "is not yours to use: choose one above 1023 with --port",
    errno.EADDRNOTAVAIL: "is no address of this machine: choose another with --host",
}


class CannotListen(DulyError):
    """The address cannot be had; the message says why, and what to do."""


def open_listener(settings: ServerSettings) -> socket.socket:
    """Bind and listen; connections queue from here on."""
    handed = inherited_socket()
    if handed is not None:
        return handed
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as problem:
        code = problem.errno
        remedy = REMEDIES.get(code, f"cannot be listened on: {problem.strerror}") if code else ""
        told = remedy or f"cannot be listened on: {problem}"
        raise CannotListen(f"port {settings.port} of {settings.host} {told}") from None


def inherited_socket() -> socket.socket | None:
    """The socket that whoever started this process listens on already, and hands over."""
    meant = os.environ.pop(PASSED_TO, ""), os.environ.pop(PASSED_COUNT, "")
    if meant != (str(os.getpid()), "1"):
        return None
    handed = socket.socket(fileno=PASSED)
    if handed.family not in (socket.AF_INET, socket.AF_INET6):
        handed.detach()  # not ours to use, nor to close
        return None
    handed.set_inheritable(False)
    return handed


def base_url(host: str, port: int) -> str:
    """The address as a client would write it."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def reachable_host(host: str) -> str:
    """A host that leads here from this machine."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # named, not bound
