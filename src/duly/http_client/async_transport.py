"""An async httpx transport behind the egress guard."""

from __future__ import annotations

import time
from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import httpx

from duly.http_client.connect import AsyncConnector, resolve
from duly.http_client.deadlines import limited_head, request_deadline
from duly.http_client.http11 import HTTP11Connection
from duly.http_client.policy import (
    MOST_READ,
    address_of,
    as_httpx_errors,
    identity_headers,
    is_repeatable,
    pool_key,
    refuse_compressed,
    refuse_longer,
    ssl_context,
)
from duly.http_client.pool import Pool
from duly.stores.shielding import shield_then_cancel, shield_to_end

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from duly.http_client.connect import AddressInfos
    from duly.http_client.http11 import ResponseHead
    from duly.outbox.egress import Egress, Target


class AsyncResponseBody(httpx.AsyncByteStream):
    """The body of a response, read before the deadline and up to a limit."""

    def __init__(
        self,
        stream: Any,
        request: httpx.Request,
        until: float,
        limit: int,
        on_close: Callable[[], Awaitable[None]],
    ) -> None:
        self._stream = stream
        self._request = request
        self._until = until
        self._limit = limit
        self._on_close = on_close
        self._released = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read, parts = 0, aiter(self._stream)
        while True:
            with as_httpx_errors(self._request), request_deadline(self._until):
                part = await anext(parts, None)
            if part is None:
                self._refuse_cut_off()
                return
            read += len(part)
            refuse_longer(read, self._limit, self._request)
            yield part

    def _refuse_cut_off(self) -> None:
        """Raise where the body was closed early: a part must not pass for the whole."""
        if self._released:
            raise httpx.ReadError("the body was closed before its end", request=self._request)

    async def aclose(self) -> None:
        """Give the connection back, or close it if there is more to read."""
        if not self._released:  # afterwards the connection may serve another request
            self._released = True
            await shield_then_cancel(self._close_stream())

    async def _close_stream(self) -> None:
        await self._on_close()
        with suppress(RuntimeError):  # another task reads it, and gets the error
            await self._stream.aclose()


class AsyncGuardedTransport(httpx.AsyncBaseTransport):
    """Sends requests that the egress guard allows; belongs to the event loop that first uses it."""

    def __init__(
        self,
        egress: Egress,
        *,
        limit: int = MOST_READ,
        unpacked: bool = True,
        resolver: Callable[[str, int], AddressInfos] = resolve,
    ) -> None:
        self._egress = egress
        self._limit = limit
        # Whether httpx would decompress the body: then a compressed one is refused.
        self._unpacked = unpacked
        self._tls = ssl_context()
        self._connector = AsyncConnector(egress, resolver)
        self._pool: Pool[HTTP11Connection] = Pool(attrgetter("reusable"))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        until = time.monotonic() + self._egress.deadline.total_seconds()
        return await self._send(request, until)

    async def _send(self, request: httpx.Request, until: float) -> httpx.Response:
        target = self._egress.check(address_of(request))
        found, expired = self._pool.acquire(pool_key(request))
        connection = found
        try:
            if expired:
                await shield_then_cancel(aclose_all(expired))
            with as_httpx_errors(request), request_deadline(until), limited_head():
                if connection is None:
                    connection = await self._connect(target, request)
                head = await connection.send_request(request, identity_headers(request))
            if self._unpacked:
                refuse_compressed(head.headers, request)
        except BaseException as problem:
            if connection is not None:
                self._pool.discard(connection)
                await shield_to_end(connection.aclose())
            if found is not None and is_repeatable(request, problem):
                return await self._send(request, until)
            raise
        return self._build_response(connection, head, request, until)

    def _build_response(
        self, connection: HTTP11Connection, head: ResponseHead, request: httpx.Request, until: float
    ) -> httpx.Response:
        async def release() -> None:
            await connection.finish_response()
            await aclose_all(self._pool.release(pool_key(request), connection))

        body = AsyncResponseBody(connection.body(), request, until, self._limit, release)
        return httpx.Response(
            head.status, headers=head.headers, stream=body, extensions=head.extensions
        )

    async def _connect(self, target: Target, request: httpx.Request) -> HTTP11Connection:
        """A new connection, under TLS where the URL says so."""
        limit: float | None = request.extensions.get("timeout", {}).get("connect")
        host = request.url.raw_host.decode("ascii")
        stream = await self._connector.connect(target, host, limit, self._tls)
        connection = HTTP11Connection(stream)
        self._pool.add_busy(connection)
        return connection

    async def aclose(self) -> None:
        """Close every connection."""
        await aclose_all(self._pool.close())


async def aclose_all(connections: list[HTTP11Connection]) -> None:
    """Close connections."""
    for connection in connections:
        await connection.aclose()
