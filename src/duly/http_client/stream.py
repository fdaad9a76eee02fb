"""An async TCP connection on asyncio's own transport, with TLS for https.

Received bytes are buffered until they are read, a request is written as a whole before its
response is read, and every wait ends with the deadline of the request.
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

# Bytes buffered before reading is paused.
MOST_KEPT = 64 * 1024
# Bytes of a request that are buffered to be written with the rest of it.
MOST_GATHERED = 64 * 1024


class TLSTarget(NamedTuple):
    """The trusted authorities, and the host whose certificate it must be."""

    trusted: ssl.SSLContext
    host: str


class Connection(asyncio.Protocol):
    """Buffers what has arrived, for one reader and one writer."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._paused = False
        self._over = False
        self._problem: Exception | None = None
        self._reading: asyncio.Future[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Buffer the data; pause reading at the limit."""
        self._received += data
        if len(self._received) >= MOST_KEPT and self.transport is not None:
            self._paused = True
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """End of the input; the event loop closes the connection."""
        self._over = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed, with or without an error."""
        self._over, self._problem = True, self._problem or exc
        self._wake()
        self._writable.set()

    def pause_writing(self) -> None:
        """The write buffer is full."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The write buffer has room again."""
        self._writable.set()

    def _wake(self) -> None:
        if self._reading is not None and not self._reading.done():
            self._reading.set_result(None)

    def close(self) -> None:
        """Abort. A pending read must not take that for the end of a response."""
        self._problem = self._problem or ConnectionAbortedError(
            "the connection was closed on this side"
        )
        if self.transport is not None:
            self.transport.abort()

    async def read(self, most: int) -> bytes:
        """What has arrived, as soon as there is something; empty at the end."""
        while not self._received and not self._over:
            self._reading = asyncio.get_running_loop().create_future()
            await self._reading
        if not self._received and self._problem is not None:
            raise httpcore.ReadError(str(self._problem)) from self._problem
        found = bytes(self._received[:most])
        del self._received[:most]
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
        """Whether it is open, and everything that arrived was read."""
        return not self._received and not self._over and not is_readable(self.transport)


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
    """Turn `TimeoutError` into httpcore's timeout of this step."""
    try:
        yield
    except TimeoutError as problem:
        raise late("the server took too long") from problem


class AsyncStream:
    """One connection, with writes gathered into whole requests."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._gathered: list[bytes] = []
        self._size = 0

    async def read(self, most: int, limit: float | None) -> bytes:
        """Flush the gathered writes, and read what has arrived."""
        rest = time_left(limit, httpcore.ReadTimeout)
        self._flush()
        with timeout_as(httpcore.ReadTimeout):
            async with asyncio.timeout(rest):
                return count_head_bytes(await self._connection.read(read_size(most)))

    async def write(self, buffer: bytes, limit: float | None) -> None:
        """Gather the write: no server answers part of a request, so all of it can go at once."""
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
        """Write what was gathered; a failure shows at the next wait.

        A connection that the server has closed takes nothing, but may still hold its response.
        """
        transport = self._connection.transport
        if self._gathered and transport is not None and not transport.is_closing():
            transport.write(b"".join(self._gathered))
        self._gathered, self._size = [], 0

    async def aclose(self) -> None:
        """Close the connection at once; unread data is lost."""
        self._connection.close()
        await asyncio.sleep(0)  # the event loop closes the socket in its next step

    @property
    def idle(self) -> bool:
        """Whether it is open, and everything that arrived was read."""
        return self._connection.idle


async def open_stream(
    address: str, port: int, limit: float | None, tls_target: TLSTarget | None
) -> AsyncStream:
    """Connect to an IP address; under TLS from the first byte where asked.

    Plain text that arrived before TLS is never taken for a response.
    """
    loop = asyncio.get_running_loop()
    tls, name = (None, None) if tls_target is None else tls_target
    try:
        with timeout_as(httpcore.ConnectTimeout):
            async with asyncio.timeout(limit):
                _, connection = await loop.create_connection(
                    Connection, address, port, ssl=tls, server_hostname=name
                )
    except OSError as problem:  # including those of TLS
        raise httpcore.ConnectError(str(problem)) from problem
    return AsyncStream(connection)
