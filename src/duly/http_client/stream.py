"""A connection of the event loop itself, with TLS where it is wanted.

What arrives is kept until it is read, a request is written as a whole before its answer is read,
and every wait ends with the deadline of the request.
"""

from __future__ import annotations

import asyncio
import select
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, cast

import httpcore

from duly.http_client.deadlines import count_head_bytes, read_size, time_left

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

# Bytes that wait to be read: then the other side has to wait.
MOST_KEPT = 64 * 1024
# Bytes of a request that wait to be written with the rest of it.
MOST_GATHERED = 64 * 1024


class TLSTarget(NamedTuple):
    """Whom to believe under TLS, and whose certificate it must be."""

    trusted: ssl.SSLContext
    host: str


class Connection(asyncio.Protocol):
    """What has arrived, and whether more may be written. One reads, and one writes."""

    def __init__(self) -> None:
        self._arrived = bytearray()
        self._paused = False
        self._over = False
        self._problem: Exception | None = None
        self._reading: asyncio.Future[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Dialled."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Keep it, up to a limit."""
        self._arrived += data
        if len(self._arrived) >= MOST_KEPT and self.transport is not None:
            self._paused = True
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """Nothing more will arrive; the event loop closes the connection."""
        self._over = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over, in peace or not."""
        self._over, self._problem = True, self._problem or exc
        self._wake()
        self._writable.set()

    def pause_writing(self) -> None:
        """The other side takes less than it is given."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """It has caught up."""
        self._writable.set()

    def _wake(self) -> None:
        if self._reading is not None and not self._reading.done():
            self._reading.set_result(None)

    def close(self) -> None:
        """Hang up. Whoever still reads must not take that for the end of an answer."""
        self._problem = self._problem or ConnectionAbortedError("it was closed on this side")
        if self.transport is not None:
            self.transport.abort()

    async def read(self, most: int) -> bytes:
        """What there is, as soon as there is something; nothing at the end."""
        while not self._arrived and not self._over:
            self._reading = asyncio.get_running_loop().create_future()
            await self._reading
        if not self._arrived and self._problem is not None:
            raise httpcore.ReadError(str(self._problem)) from self._problem
        found = bytes(self._arrived[:most])
        del self._arrived[:most]
        if self._paused and not self._over and self.transport is not None:
            self._paused = False
            self.transport.resume_reading()
        return found

    async def wait_writable(self) -> None:
        """Wait until more may be written."""
        await self._writable.wait()
        if self._over:
            raise httpcore.WriteError("the connection is over") from self._problem

    @property
    def idle(self) -> bool:
        """Whether it is open, and nothing has arrived that nobody has read."""
        return not self._arrived and not self._over and not is_readable(self.transport)


def is_readable(transport: asyncio.Transport | None) -> bool:
    """Whether something has arrived that the event loop has not seen yet."""
    found = None if transport is None else transport.get_extra_info("socket")
    if found is None or found.fileno() < 0:
        return True
    poll = select.poll()
    poll.register(found.fileno(), select.POLLIN)
    return bool(poll.poll(0))


@contextmanager
def timeout_as(late: type[httpcore.TimeoutException]) -> Iterator[None]:
    """A wait that took too long, by the name of what was waited for."""
    try:
        yield
    except TimeoutError as problem:
        raise late("the other side took too long") from problem


class AsyncStream:
    """One connection, over a line."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._gathered: list[bytes] = []
        self._size = 0

    async def read(self, most: int, limit: float | None) -> bytes:
        """Write what was gathered, and read what there is."""
        rest = time_left(limit, httpcore.ReadTimeout)
        self._flush()
        with timeout_as(httpcore.ReadTimeout):
            async with asyncio.timeout(rest):
                return count_head_bytes(await self._connection.read(read_size(most)))

    async def write(self, buffer: bytes, limit: float | None) -> None:
        """Gather it: nobody answers a part of a request, so that all of it can go at once."""
        rest = time_left(limit, httpcore.WriteTimeout)
        self._gathered.append(buffer)
        self._size += len(buffer)
        if self._size < MOST_GATHERED:
            return
        self._flush()
        with timeout_as(httpcore.WriteTimeout):
            async with asyncio.timeout(rest):
                await self._connection.wait_writable()

    def _flush(self) -> None:
        """Hand over what was gathered; how that fails is told by the next wait.

        A connection that the other side has closed takes nothing, but may hold its last words.
        """
        transport = self._connection.transport
        if self._gathered and transport is not None and not transport.is_closing():
            transport.write(b"".join(self._gathered))
        self._gathered, self._size = [], 0

    async def aclose(self) -> None:
        """Close the connection; whatever is still under way has no taker."""
        self._connection.close()
        await asyncio.sleep(0)  # that is when the event loop closes the socket

    @property
    def idle(self) -> bool:
        """Whether it is open, and nothing has arrived that nobody has read."""
        return self._connection.idle


async def open_stream(
    address: str, port: int, limit: float | None, tls_target: TLSTarget | None
) -> AsyncStream:
    """A connection to an address, which is no name; under TLS from its first byte where asked.

    What somebody wrote in the clear before that is never taken for an answer.
    """
    loop = asyncio.get_running_loop()
    tls, name = (None, None) if tls_target is None else tls_target
    try:
        with timeout_as(httpcore.ConnectTimeout):
            async with asyncio.timeout(limit):
                _, line = await loop.create_connection(
                    Connection, address, port, ssl=tls, server_hostname=name
                )
    except OSError as problem:  # those of TLS are among them
        raise httpcore.ConnectError(str(problem)) from problem
    return AsyncStream(line)
