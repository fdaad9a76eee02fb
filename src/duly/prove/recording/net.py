"""What goes past the recorder does not go out, either: it fails, and says what to do."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from duly.prove.recording.refusals import Refusals
from duly.prove.steps.watching import replace_attribute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# One place under three names: a client that connects to one tries the others as well.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
# What PostgreSQL calls its socket, before the port.
POSTGRES = ".s.PGSQL."


class NotRecorded(OSError):
    """A call by means that are not recorded."""


def refusal_error(where: str) -> NotRecorded:
    """The error of such a call."""
    return NotRecorded(
        f"this process may not connect to {where} while it is being proved: only calls by httpx, "
        "http.client, urllib, requests and smtplib can be answered here. Name it with "
        f"--let-through {where} if it belongs to the application's own machinery"
    )


class NetworkGuard:
    """Refuses connections, once it is closed, but to the hosts that were named.

    An address has a host and a port; a program, and a socket that is a file, has the port 0.
    """

    def __init__(self, refusals: Refusals | None = None) -> None:
        self.refusals = Refusals() if refusals is None else refusals
        self._allowed: set[tuple[str, int]] | None = None

    def close(self, allowed: frozenset[tuple[str, int]]) -> None:
        """From here on, only to these."""
        self._allowed = set(allowed)

    @property
    def is_closed(self) -> bool:
        """Whether anything is refused."""
        return self._allowed is not None

    def allows(self, host: str, port: int) -> bool:
        """Whether this was named."""
        if self._allowed is None:
            return True
        names = LOOPBACK if host in LOOPBACK else {host}
        return any((name, port) in self._allowed for name in names)

    def check(self, family: socket.AddressFamily, address: Any) -> None:
        """Refuse a connection."""
        if self._allowed is None:
            return
        if family.name == "AF_UNIX":
            self._check_file(path_of(address))
        elif isinstance(address, tuple) and not self.allows(str(address[0]), int(address[1])):
            self.refuse(refusal_error(f"{address[0]}:{address[1]}"))

    def _check_file(self, path: str) -> None:
        """Refuse a socket that is a file."""
        allowed = self._allowed or ()
        named = {path_of(host) for host, port in allowed if port == 0}
        # A PostgreSQL that may be reached is reached by its file as well.
        named |= {path_of(f"{host}/{POSTGRES}{port}") for host, port in allowed if host[:1] == "/"}
        here = {f"{POSTGRES}{port}" for host, port in allowed if host in LOOPBACK}
        if path not in named and Path(path).name not in here:
            self.refuse(refusal_error(path))

    def refuse(self, problem: NotRecorded) -> NoReturn:
        """Raise it, and let it be known even if it is caught."""
        self.refusals.add(str(problem))
        raise problem

    def look_up(self, host: Any, port: Any, look: Callable[[], Any]) -> Any:
        """Look up a name; where it leads to is allowed if the name is."""
        name = host.decode() if isinstance(host, bytes) else host
        allowed = self.allows(name, port)
        if not allowed and not is_numeric(name):
            self.refuse(refusal_error(f"{name}:{port}"))
        found = look()
        if allowed and self._allowed is not None:
            self._allowed.update((str(one[4][0]), int(one[4][1])) for one in found)
        return found

    @contextmanager
    def install(self) -> Iterator[None]:
        """Be in the way of every connection inside the block."""
        connect, connect_ex = socket.socket.connect, socket.socket.connect_ex
        look_up = socket.getaddrinfo

        def connect_checked(this: socket.socket, address: Any) -> None:
            self.check(this.family, address)
            connect(this, address)

        def connect_ex_checked(this: socket.socket, address: Any) -> int:
            self.check(this.family, address)
            return connect_ex(this, address)

        def getaddrinfo_checked(host: Any, port: Any, *rest: Any, **options: Any) -> Any:
            return self.look_up(host, port, lambda: look_up(host, port, *rest, **options))

        with (
            replace_attribute(socket.socket, "connect", connect_checked),
            replace_attribute(socket.socket, "connect_ex", connect_ex_checked),
            replace_attribute(socket, "getaddrinfo", getaddrinfo_checked),
        ):
            yield


def path_of(address: str | bytes) -> str:
    """Where a socket is that is a file; a name that Linux keeps without one begins with @."""
    text = os.fsdecode(address)
    return f"@{text[1:]}" if text[:1] in ("\0", "@") else str(Path(text).resolve())


def is_numeric(host: object) -> bool:
    """Whether this name is resolved locally; its address is checked when connecting."""
    if host is None or host == "localhost":
        return True
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, str(host))
        except OSError:
            continue
        return True
    return False
