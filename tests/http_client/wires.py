"""Sees every connection that this process tries to open, and lets none leave the machine.

A hook of the interpreter cannot be taken out again: it is put in once, and listens while a test
asks for it.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Dialled = tuple[str, int]


class Listener:
    """Where the hook writes down what it sees."""

    def __init__(self) -> None:
        self.installed = False
        self.seen: list[Dialled] | None = None

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.seen is None or event not in ("socket.connect", "socket.sendto"):
            return
        address = arguments[1]
        if not isinstance(address, tuple):  # a socket that is a file
            self.seen.append((str(address), 0))
            return
        self.seen.append((str(address[0]), int(address[1])))
        if not ip_address(address[0]).is_loopback:
            raise ConnectionRefusedError("tests never leave this machine")


LISTENER = Listener()


@contextmanager
def dials() -> Iterator[list[Dialled]]:
    """Every connection that is tried inside of the block, by any thread."""
    if not LISTENER.installed:
        sys.addaudithook(LISTENER.hear)
        LISTENER.installed = True
    seen: list[Dialled] = []
    LISTENER.seen = seen
    try:
        yield seen
    finally:
        LISTENER.seen = None
