"""HTTP/1.1 on one async connection: a request, its response, and perhaps the next.

h11 implements the protocol, as it does for httpx's own client. What httpcore adds around it, and a
relay would pay for with every message, is left out: pools, locks, traces (docs/decisions/0027).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import h11
import httpcore

from duly.http_client.deadlines import MOST_OF_A_HEAD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from duly.http_client.stream import AsyncStream

READ = 64 * 1024
SWITCHING = 101
# Parts of a body after which other tasks run: they may be of one byte each.
AT_ONCE = 100
NO_LIMIT: dict[str, float | None] = {}


class ResponseHead(NamedTuple):
    """The head of a response."""

    status: int
    headers: list[tuple[bytes, bytes]]
    extensions: dict[str, Any]


class HTTP11Connection:
    """Sends requests over a stream, one at a time, and reads their responses."""

    def __init__(self, stream: AsyncStream) -> None:
        self._stream = stream
        self._state = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_OF_A_HEAD)
        self._timeouts = NO_LIMIT
        self._closed = False

    async def send_request(
        self, request: httpx.Request, headers: list[tuple[bytes, bytes]]
    ) -> ResponseHead:
        """Send a whole request, and read the head of its response."""
        self._timeouts = request.extensions.get("timeout", NO_LIMIT)
        # A server may refuse before it has read everything, and its response is worth reading.
        with suppress(httpcore.WriteError):
            await self._send(request, headers)
        event: Any = await self._next_event()
        while type(event) is h11.InformationalResponse and event.status_code != SWITCHING:
            event = await self._next_event()
        return ResponseHead(
            event.status_code,
            event.headers.raw_items(),
            {"http_version": b"HTTP/" + event.http_version, "reason_phrase": event.reason},
        )

    async def _send(self, request: httpx.Request, headers: list[tuple[bytes, bytes]]) -> None:
        limit, target = self._timeouts.get("write"), request.url.raw_path
        begin = h11.Request(method=request.method.upper(), target=target, headers=headers)
        await self._write(begin, limit)
        stream: Any = request.stream
        async for part in stream:
            await self._write(h11.Data(data=part), limit)
        await self._write(h11.EndOfMessage(), limit)

    async def _write(self, event: h11.Event, limit: float | None) -> None:
        written = self._state.send(event)
        if written:
            await self._stream.write(written, limit)

    async def _next_event(self) -> h11.Event | type[h11.PAUSED]:
        """The next event of the response."""
        while True:
            event = self._state.next_event()
            if event is not h11.NEED_DATA:
                return event  # type: ignore[return-value]  # NEED_DATA is the only other one
            data = await self._stream.read(READ, self._timeouts.get("read"))
            if not data and self._state.their_state is h11.SEND_RESPONSE:
                raise httpcore.RemoteProtocolError("the server closed without a response")
            self._state.receive_data(data)

    async def body(self) -> AsyncIterator[bytes]:
        """The body of the response as it arrives; other tasks run between many parts."""
        parts = 0
        while type(event := await self._next_event()) is h11.Data:
            yield bytes(event.data)
            parts += 1
            if parts % AT_ONCE == 0:
                await asyncio.sleep(0)

    async def finish_response(self) -> None:
        """Make ready for the next request, or close where the response was not read whole."""
        if self._state.our_state is h11.DONE and self._state.their_state is h11.DONE:
            self._state.start_next_cycle()
        else:
            await self.aclose()

    @property
    def reusable(self) -> bool:
        """Whether it can carry another request: open, and with nothing left to read.

        Bytes that a server sent beyond its response would pass for the response to the next one.
        """
        if self._closed or self._state.our_state is not h11.IDLE:
            return False
        return not self._state.trailing_data[0] and self._stream.idle

    async def aclose(self) -> None:
        """Close the connection."""
        self._closed = True
        await self._stream.aclose()
