"""The egress guard as a transport of httpx's, for code that is awaited."""

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
    """The body of an answer, read in time and up to a limit."""

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
        self._given_back = False

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
        """Half an answer must not pass for all of it."""
        if self._given_back:
            raise httpx.ReadError("it was closed before its end was read", request=self._request)

    async def aclose(self) -> None:
        """Give the connection back, or close it if there is more to read."""
        if not self._given_back:  # by then the connection may be somebody else's
            self._given_back = True
            await shield_then_cancel(self._close_stream())

    async def _close_stream(self) -> None:
        await self._on_close()
        with suppress(RuntimeError):  # another task reads it, and has just been told
            await self._stream.aclose()


class AsyncGuardedTransport(httpx.AsyncBaseTransport):
    """Sends what the egress guard lets out; it belongs to the event loop that first uses it."""

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
        # Whether somebody unpacks what is compressed: then it is refused.
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
        found, over = self._pool.acquire(pool_key(request))
        speaker = found
        try:
            if over:
                await shield_then_cancel(aclose_all(over))
            with as_httpx_errors(request), request_deadline(until), limited_head():
                if speaker is None:
                    speaker = await self._connect(target, request)
                head = await speaker.send_request(request, identity_headers(request))
            if self._unpacked:
                refuse_compressed(head.headers, request)
        except BaseException as problem:
            if speaker is not None:
                self._pool.discard(speaker)
                await shield_to_end(speaker.aclose())
            if found is not None and is_repeatable(request, problem):
                return await self._send(request, until)
            raise
        return self._build_response(speaker, head, request, until)

    def _build_response(
        self, connection: HTTP11Connection, head: ResponseHead, request: httpx.Request, until: float
    ) -> httpx.Response:
        async def over() -> None:
            await connection.finish_response()
            await aclose_all(self._pool.release(pool_key(request), connection))

        answer = AsyncResponseBody(connection.body(), request, until, self._limit, over)
        return httpx.Response(
            head.status, headers=head.headers, stream=answer, extensions=head.extensions
        )

    async def _connect(self, target: Target, request: httpx.Request) -> HTTP11Connection:
        """A new connection, under TLS where the URL says so."""
        limit: float | None = request.extensions.get("timeout", {}).get("connect")
        host = request.url.raw_host.decode("ascii")
        speaker = HTTP11Connection(await self._connector.connect(target, host, limit, self._tls))
        self._pool.add_busy(speaker)
        return speaker

    async def aclose(self) -> None:
        """Close every connection."""
        await aclose_all(self._pool.close())


async def aclose_all(connections: list[HTTP11Connection]) -> None:
    """Close what is over."""
    for connection in connections:
        await connection.aclose()
