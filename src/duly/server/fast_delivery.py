"""A small delivery on its way past ASGI: from its headers to the answer after its commit.

Most deliveries are small and go to a source whose code is all duly's. Such a one needs no ASGI
scope, task or future: it is verified in the parser's callback, waits in the commit queue with a
callback of its own, and the commit writes its answer. Everything else goes through the ASGI
application.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from duly.app.duly import Duly
from duly.receiver import asgi
from duly.receiver.request import HEADER_BYTES, MOST_HEADERS, WholeRequest
from duly.receiver.responses import RequestRefused
from duly.receiver.router import SMALL
from duly.server.framing import FOREIGN, HOST
from duly.server.logging import ROOT, AccessRecord, BatchingHandler

if TYPE_CHECKING:
    from duly.inbox.route import Route
    from duly.receiver.responses import Reply
    from duly.receiver.router import Router
    from duly.server.protocol import BoundedProtocol

# `SMALL` has five digits.
LENGTH_DIGITS: Final = 5
CLOSE: Final = b"connection: close\r\n"


class NoEvent:
    """Stands where uvicorn's cycle has the event that wakes an application."""

    def set(self) -> None:
        """Wake nothing: no application waits."""


class FastDelivery:
    """One delivery of a connection. uvicorn treats it as the cycle of a request under way.

    That is why the server's drain waits for it, the keep-alive timer leaves the connection alone,
    and requests behind it are queued until it is answered.
    """

    __slots__ = (
        "__weakref__", "begun", "body", "disconnected", "keep_alive", "previous", "request",
        "response_complete", "route", "router",
    )  # fmt: skip
    message_event = NoEvent()

    def __init__(self, router: Router, route: Route, request: WholeRequest, previous: Any) -> None:
        self.router = router
        self.route = route
        self.request = request
        self.previous = previous  # the cycle before it, for uvicorn, should it be handed over
        self.begun = time.perf_counter()
        self.body = b""
        self.keep_alive = True
        self.disconnected = False
        self.response_complete = False

    def add(self, piece: bytes) -> bool:
        """Add a piece of the body; return False where there is no memory for it."""
        try:
            self.router.take_memory(len(piece), len(self.body) + len(piece))
        except RequestRefused:
            self.router.release_memory(len(piece))  # it was counted all the same
            return False
        self.body += piece
        return True

    def release(self) -> None:
        """Give back the memory of the body: the connection keeps this until its next request."""
        self.router.release_memory(len(self.body))
        self.body = b""


def size_of(headers: list[tuple[bytes, bytes]]) -> int:
    """Return how many bytes the names and values of headers have together."""
    return sum([len(name) + len(value) for name, value in headers])


class FastPath:
    """What a connection knows of the application behind it, to tell which requests are fast.

    Args:
        loaded: uvicorn's application: a Duly, or one behind ``--proxies``.
    """

    __slots__ = ("_host", "_router", "_trusted")

    def __init__(self, loaded: object) -> None:
        self._trusted = None
        self._host = b""  # the last Host header that was sound: it hardly ever changes
        if isinstance(loaded, ProxyHeadersMiddleware):
            self._trusted = loaded.trusted_hosts
            loaded = loaded.app
        # A subclass may refuse requests in its own ``__call__``, which must not be passed by.
        plain = isinstance(loaded, Duly) and type(loaded).__call__ is Duly.__call__
        self._router = loaded.router if isinstance(loaded, Duly) and plain else None

    def find_delivery(self, protocol: BoundedProtocol, received: bytes) -> FastDelivery | None:
        """Return the delivery whose headers are complete, or None to take it through ASGI.

        Args:
            protocol: of the connection, on which nothing else is under way.
            received: what has come since the head of the request began, or before.
        """
        router, headers = self._router, protocol.headers
        if router is None or len(headers) > MOST_HEADERS:
            return None
        path = protocol.url.decode("latin-1")
        route = router.routes.get(path)
        fields = dict(headers)
        length = fields.get(b"content-length", b"")
        if (
            route is None
            or not route.is_fast
            or len(fields) != len(headers)
            or not length.isdigit()
            or len(length) > LENGTH_DIGITS
            or b"transfer-encoding" in fields
            or b"content-encoding" in fields
            or b"expect" in fields
            or b"upgrade" in fields
            or FOREIGN[0] in received
            or FOREIGN[1] in received
        ):
            return None
        declared = int(length)
        if (
            declared > min(SMALL, route.max_body)
            or (len(received) > HEADER_BYTES and size_of(headers) > HEADER_BYTES)
            or not self._is_sound_host(fields.get(b"host"))
        ):
            return None
        client = protocol.client
        remote: str | None = client[0] if client else None
        scheme: str = protocol.scheme or "http"
        if self._trusted is not None and remote in self._trusted:
            remote, scheme = self._read_forwarded(remote, scheme, fields)
        request = WholeRequest(headers, fields, path, remote, scheme)
        return FastDelivery(router, route, request, protocol.cycle)

    def _is_sound_host(self, host: bytes | None) -> bool:
        """Return True for the header that `find_fault` accepts."""
        if host is None:
            return False
        if host != self._host:
            if HOST.fullmatch(host.strip(b" \t")) is None:
                return False
            self._host = host
        return True

    def _read_forwarded(
        self, remote: str | None, scheme: str, fields: dict[bytes, bytes]
    ) -> tuple[str | None, str]:
        """The sender's address and the scheme that was called, by the word of a trusted proxy."""
        assert self._trusted is not None  # noqa: S101  # asked by the caller
        hops = fields.get(b"x-forwarded-for")
        if hops is not None:
            host, _ = self._trusted.get_trusted_client_address(hops.decode("latin-1"))
            remote = host or remote
        proto = fields.get(b"x-forwarded-proto", b"").decode("latin-1").strip()
        return remote, proto if proto in ("http", "https") else scheme


class DefaultHeaders:
    """The headers that uvicorn puts into each answer, written once for all of a second."""

    def __init__(self) -> None:
        self._headers: list[tuple[bytes, bytes]] = []
        self._written = b""

    def write(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Return the lines of these headers; uvicorn makes a new list when one changes."""
        if headers is not self._headers:
            self._written = b"".join([b"%b: %b\r\n" % pair for pair in headers])
            self._headers = headers
        return self._written


DEFAULT_HEADERS: Final = DefaultHeaders()


def write_reply(
    delivery: FastDelivery, reply: Reply, default_headers: list[tuple[bytes, bytes]]
) -> bytes:
    """Return the whole answer; it says so where the connection ends with it."""
    lines = DEFAULT_HEADERS.write(default_headers)
    if reply.headers:
        lines += b"".join([f"{name}: {value}\r\n".encode() for name, value in reply.headers])
        if ("connection", "close") in reply.headers:
            delivery.keep_alive = False
        elif not delivery.keep_alive:
            lines += CLOSE
    elif not delivery.keep_alive:
        lines += CLOSE
    status = STATUS_LINE[reply.status]
    if reply.status == 204:  # which has no body
        return b"%b%b\r\n" % (status, lines)
    return b"%b%bcontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (
        status, lines, reply.content_type.encode(), len(reply.body), reply.body,
    )  # fmt: skip


def log_reply(delivery: FastDelivery, reply: Reply) -> None:
    """Write the line of the access log."""
    if not asgi.access.isEnabledFor(logging.INFO):
        return
    path = delivery.request.path
    handlers = ROOT.handlers
    if handlers and type(handlers[0]) is BatchingHandler:
        milliseconds = (time.perf_counter() - delivery.begun) * 1000
        request = AccessRecord("POST", *asgi.describe_reply(path, reply), milliseconds)
        if handlers[0].log_access(request):
            return
    asgi.log_request("POST", path, reply, delivery.begun)
