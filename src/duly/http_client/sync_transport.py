"""A sync httpx transport behind the egress guard."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import httpcore
import httpx

from duly.http_client.connect import Connector, resolve
from duly.http_client.deadlines import limited_head, request_deadline
from duly.http_client.policy import (
    MOST_READ,
    address_of,
    as_httpx_errors,
    identity_headers,
    is_repeatable,
    origin_of,
    pool_key,
    refuse_compressed,
    refuse_longer,
    ssl_context,
)
from duly.http_client.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly.http_client.connect import AddressInfos
    from duly.outbox.egress import Egress, Target


# Extensions of httpcore that would lead a request elsewhere than to the checked URL.
REDIRECTING = ("sni_hostname", "target")


def to_httpcore(request: httpx.Request) -> httpcore.Request:
    """A request of httpx as one of httpcore."""
    return httpcore.Request(
        method=request.method,
        url=httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        ),
        headers=identity_headers(request),
        content=request.stream,
        extensions={
            name: value for name, value in request.extensions.items() if name not in REDIRECTING
        },
    )


class ResponseBody(httpx.SyncByteStream):
    """The body of a response, read before the deadline and up to a limit."""

    def __init__(
        self,
        stream: Any,
        request: httpx.Request,
        until: float,
        limit: int,
        on_close: Callable[[], None],
    ) -> None:
        self._stream = stream
        self._request = request
        self._until = until
        self._limit = limit
        self._on_close = on_close
        self._released = False

    def __iter__(self) -> Iterator[bytes]:
        read, parts = 0, iter(self._stream)
        while True:
            with as_httpx_errors(self._request), request_deadline(self._until):
                part = next(parts, None)
            if part is None:
                return
            read += len(part)
            refuse_longer(read, self._limit, self._request)
            yield part

    def close(self) -> None:
        """Give the connection back, or close it if there is more to read."""
        if self._released:  # by now the connection may serve another request
            return
        self._released = True
        self._stream.close()
        self._on_close()


class GuardedTransport(httpx.BaseTransport):
    """Sends requests that the egress guard allows."""

    def __init__(
        self,
        egress: Egress,
        *,
        limit: int = MOST_READ,
        resolver: Callable[[str, int], AddressInfos] = resolve,
    ) -> None:
        self._egress = egress
        self._limit = limit
        self._resolver = resolver
        self._tls = ssl_context()
        self._pool: Pool[httpcore.HTTPConnection] = Pool(is_usable)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        until = time.monotonic() + self._egress.deadline.total_seconds()
        return self._send(request, until)

    def _send(self, request: httpx.Request, until: float) -> httpx.Response:
        target = self._egress.check(address_of(request))
        connection, kept = self._acquire_connection(target, request)
        try:
            with as_httpx_errors(request), request_deadline(until), limited_head():
                response = connection.handle_request(to_httpcore(request))
            refuse_compressed(response.headers, request)
        except BaseException as problem:
            self._pool.discard(connection)
            connection.close()
            if kept and is_repeatable(request, problem):
                return self._send(request, until)
            raise

        def release() -> None:
            close_all(self._pool.release(pool_key(request), connection))

        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=ResponseBody(response.stream, request, until, self._limit, release),
            extensions=response.extensions,
        )

    def _acquire_connection(
        self, target: Target, request: httpx.Request
    ) -> tuple[httpcore.HTTPConnection, bool]:
        """A kept connection that is still usable, or a new one; and whether it was kept."""
        found, expired = self._pool.acquire(pool_key(request))
        close_all(expired)
        if found is not None:
            return found, True
        made = httpcore.HTTPConnection(
            origin_of(request),
            ssl_context=self._tls,
            network_backend=Connector(self._egress, target, self._resolver),
        )
        self._pool.add_busy(made)
        return made, False

    def close(self) -> None:
        """Close every connection."""
        close_all(self._pool.close())


def is_usable(connection: httpcore.HTTPConnection) -> bool:
    """Whether a connection can carry another request: free, open, and with nothing left to read.

    Bytes that a server sent beyond its response would pass for the response to the next request.
    """
    if not connection.is_idle() or connection.has_expired():
        return False
    parser = getattr(getattr(connection, "_connection", None), "_h11_state", None)
    trailing = getattr(parser, "trailing_data", (b"unknown", True))
    return not trailing[0]


def close_all(connections: list[httpcore.HTTPConnection]) -> None:
    """Close connections."""
    for connection in connections:
        connection.close()
