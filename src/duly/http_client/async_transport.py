"""The egress guard as a transport of httpx's, for code that is awaited."""

from __future__ import annotations

import time
from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import httpx

from duly.http_client.connect import AsyncDialler, resolve
from duly.http_client.deadlines import ending, within_a_head
from duly.http_client.http11 import Speaker
from duly.http_client.policy import (
    MOST_READ,
    address_of,
    refuse_compressed,
    refuse_longer,
    repeatable,
    spelled,
    spoken_as_httpx,
    trusting,
    uncompressed,
)
from duly.http_client.pool import Heap
from duly.stores.shielding import surely, to_its_end

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from duly.http_client.connect import Answers
    from duly.http_client.http11 import Head
    from duly.outbox.egress import Egress, Target


class AsyncAnswer(httpx.AsyncByteStream):
    """The body of an answer, read in time and up to a limit."""

    def __init__(
        self,
        stream: Any,
        request: httpx.Request,
        until: float,
        limit: int,
        over: Callable[[], Awaitable[None]],
    ) -> None:
        self._stream = stream
        self._request = request
        self._until = until
        self._limit = limit
        self._over = over
        self._given_back = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read, parts = 0, aiter(self._stream)
        while True:
            with spoken_as_httpx(self._request), ending(self._until):
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
            await to_its_end(self._closed())

    async def _closed(self) -> None:
        await self._over()
        with suppress(RuntimeError):  # another task reads it, and has just been told
            await self._stream.aclose()


class AsyncGuarded(httpx.AsyncBaseTransport):
    """Sends what the egress guard lets out; it belongs to the event loop that first uses it."""

    def __init__(
        self,
        egress: Egress,
        *,
        limit: int = MOST_READ,
        unpacked: bool = True,
        resolver: Callable[[str, int], Answers] = resolve,
    ) -> None:
        self._egress = egress
        self._limit = limit
        # Whether somebody unpacks what is compressed: then it is refused.
        self._unpacked = unpacked
        self._tls = trusting()
        self._dialler = AsyncDialler(egress, resolver)
        self._heap: Heap[Speaker] = Heap(attrgetter("reusable"))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        until = time.monotonic() + self._egress.deadline.total_seconds()
        return await self._sent(request, until)

    async def _sent(self, request: httpx.Request, until: float) -> httpx.Response:
        target = self._egress.check(address_of(request))
        found, over = self._heap.take(spelled(request))
        speaker = found
        try:
            if over:
                await to_its_end(aclosed(over))
            with spoken_as_httpx(request), ending(until), within_a_head():
                if speaker is None:
                    speaker = await self._dialled(target, request)
                head = await speaker.ask(request, uncompressed(request))
            if self._unpacked:
                refuse_compressed(head.headers, request)
        except BaseException as problem:
            if speaker is not None:
                self._heap.drop(speaker)
                await surely(speaker.aclose())
            if found is not None and repeatable(request, problem):
                return await self._sent(request, until)
            raise
        return self._answered(speaker, head, request, until)

    def _answered(
        self, speaker: Speaker, head: Head, request: httpx.Request, until: float
    ) -> httpx.Response:
        async def over() -> None:
            await speaker.over()
            await aclosed(self._heap.put(spelled(request), speaker))

        answer = AsyncAnswer(speaker.body(), request, until, self._limit, over)
        return httpx.Response(
            head.status, headers=head.headers, stream=answer, extensions=head.extensions
        )

    async def _dialled(self, target: Target, request: httpx.Request) -> Speaker:
        """A new connection, under TLS where the URL says so."""
        limit: float | None = request.extensions.get("timeout", {}).get("connect")
        host = request.url.raw_host.decode("ascii")
        speaker = Speaker(await self._dialler.dial(target, host, limit, self._tls))
        self._heap.add(speaker)
        return speaker

    async def aclose(self) -> None:
        """Close every connection."""
        await aclosed(self._heap.close())


async def aclosed(connections: list[Speaker]) -> None:
    """Close what is over."""
    for connection in connections:
        await connection.aclose()
