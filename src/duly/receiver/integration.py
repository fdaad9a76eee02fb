"""What `duly.django`, `duly.fastapi` and `duly.flask` share: the source, the body and the log line.

A signature covers the bytes that were sent. An integration either has all of them, or says that it
has not; it never makes them up again from what a middleware has parsed.
"""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from duly.core.errors import UsageError
from duly.core.validation import kind
from duly.receiver.asgi import access, log_request
from duly.receiver.request import refusal_of_lost_body
from duly.receiver.router import Router

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.inbox.route import Route
    from duly.receiver.request import Request
    from duly.receiver.responses import Reply

# Every method is answered here, so that a wrong one gets the same reply everywhere.
METHODS: Final = ("POST", "GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS")


class ByteStream(Protocol):
    """Something that bytes are read from."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; none at the end."""


@contextmanager
def require_framework(name: str) -> Iterator[None]:
    """Turn a failed import into the command that installs the framework."""
    try:
        yield
    except ImportError as problem:
        raise UsageError(
            f"{name} must be installed for this: pip install {name.lower()}"
        ) from problem


def router_of(app: object) -> Router:
    """What an application serves."""
    router = getattr(app, "router", None)
    if not isinstance(router, Router):
        raise UsageError(f"an integration takes the app first, a duly.Duly, not {kind(app)}")
    return router


def route_of(app: object, name: object) -> Route:
    """A source by its name."""
    return router_of(app).route_named(name)


def function_name(route: Route) -> str:
    """A name for the function of a source; Flask allows no dots in it."""
    return f"receive_{route.name}".replace(".", "_").replace("-", "_")


class LengthCheckedBody:
    """A body that must be as long as its request says: frameworks leave that check to the server.

    The end is looked at, not the stream's own state, which every server keeps in its own way.
    """

    def __init__(self, stream: ByteStream, asked: Request, route: Route) -> None:
        self._stream = stream
        self._left = asked.declared
        self._asked = asked
        self._route = route

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; refuses an end that comes too early."""
        chunk = self._stream.read(size)
        if self._left is not None:
            if not chunk and size and self._left:
                raise refusal_of_lost_body(self._asked, self._route.name)
            self._left -= len(chunk)
        return chunk


def log_reply(method: str, path: str, reply: Reply, begun: float) -> None:
    """Log an answer as the server would have done."""
    if access.isEnabledFor(logging.INFO):
        log_request(method, path, reply, begun)


def start_timer() -> float:
    """The moment from which an answer is timed."""
    return time.perf_counter()
