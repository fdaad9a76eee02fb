"""A resolver that answers as a test tells it, and remembers what it was asked."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

Answer = tuple[Any, ...]


def answer(address: str, port: int = 443) -> Answer:
    """One answer, as the system's resolver gives it."""
    if ":" in address:
        return (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, port, 0, 0))
    return (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))


class Names:
    """Knows what each name leads to: at the first question, at the second, and so on."""

    def __init__(self, **names: list[list[str]] | Callable[[], list[str]]) -> None:
        self._said = {name.replace("_", "."): one for name, one in names.items()}
        self._lock = threading.Lock()
        self.asked: list[str] = []

    def __call__(self, host: str, port: int) -> list[Answer]:
        with self._lock:
            self.asked.append(host)
        said = self._said[host]
        if callable(said):
            addresses = said()
        else:
            with self._lock:
                # The last answer is the answer to every further question.
                addresses = said.pop(0) if len(said) > 1 else said[0]
        return [answer(address, port) for address in addresses]


def as_the_system(monkeypatch: pytest.MonkeyPatch, names: Names) -> None:
    """Put a resolver in the place of the system's, for code that cannot be given one."""
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *rest: Any, **more: Any) -> list[Any]:
        if isinstance(host, str) and not literal(host):
            return names(host, int(port))
        return real(host, port, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def literal(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return True
    return False
