"""The egress guard as httpx transports, for code that blocks and awaited.

A request is checked before anything is opened, its whole duration is bounded, and so is what is
read of the answer. Proxies of the environment play no part: httpx asks for them only where it is
given no transport.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpcore
import httpx

from duly.runtime.calling.deadlines import ending
from duly.runtime.calling.dialling import AsyncDialler, Dialler, resolve
from duly.stores.surely import surely

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator

    from duly.outbox.egress import Egress, Target
    from duly.runtime.calling.dialling import Answers

# For what a job asks; a message of the outbox needs only an acknowledgement.
MOST_READ = 10 * 1024 * 1024
MOST_CONNECTIONS = 100
KEPT_OPEN = 20
# Seconds; shorter than any server waits before it closes a connection under our hands.
KEEP_ALIVE = 1.5
# Origins with free connections; beyond that they are closed at once.
MOST_ORIGINS = 200


@contextmanager
def spoken_as_httpx(request: httpx.Request) -> Iterator[None]:
    """The errors of the layer below under the names that users of httpx know."""
    try:
        yield
    except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as problem:
        known = getattr(httpx, type(problem).__name__, httpx.TransportError)
        raise known(str(problem) or type(problem).__name__, request=request) from problem
    except httpcore.UnsupportedProtocol as problem:
        raise httpx.UnsupportedProtocol(str(problem), request=request) from problem


def lowered(request: httpx.Request) -> httpcore.Request:
    """A request as the layer below takes it; never asking for a compressed answer."""
    headers = [
        (name, value) for name, value in request.headers.raw if name.lower() != b"accept-encoding"
    ]
    return httpcore.Request(
        method=request.method,
        url=httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        ),
        headers=[*headers, (b"Accept-Encoding", b"identity")],
        content=request.stream,
        extensions={
            name: value for name, value in request.extensions.items() if name != "sni_hostname"
        },
    )


def refuse_compressed(response: httpcore.Response, request: httpx.Request) -> None:
    """A small answer must not unfold into a large one."""
    for name, value in response.headers:
        if name.lower() == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
            raise httpx.DecodingError(
                "the answer is compressed although that was not asked for", request=request
            )


class Answer(httpx.SyncByteStream):
    """The body of an answer, read in time and up to a limit."""

    def __init__(
        self, stream: Iterable[bytes], request: httpx.Request, until: float, limit: int
    ) -> None:
        self._stream = stream
        self._request = request
        self._until = until
        self._limit = limit

    def __iter__(self) -> Iterator[bytes]:
        read, parts = 0, iter(self._stream)
        while True:
            with spoken_as_httpx(self._request), ending(self._until):
                part = next(parts, None)
            if part is None:
                return
            read += len(part)
            refuse_longer(read, self._limit, self._request)
            yield part

    def close(self) -> None:
        """Give the connection back, or close it if there is more to read."""
        close = getattr(self._stream, "close", None)
        if close is not None:
            close()


class AsyncAnswer(httpx.AsyncByteStream):
    """The same, awaited."""

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

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read, parts = 0, aiter(self._stream)
        while True:
            with spoken_as_httpx(self._request), ending(self._until):
                part = await anext(parts, None)
            if part is None:
                return
            read += len(part)
            refuse_longer(read, self._limit, self._request)
            yield part

    async def aclose(self) -> None:
        """Give the connection back, or close it if there is more to read."""
        await surely(self._stream.aclose())
        await self._over()


def refuse_longer(read: int, limit: int, request: httpx.Request) -> None:
    """Read no more than was agreed."""
    if read > limit:
        raise httpx.ReadError(f"the answer is longer than {limit:,} bytes", request=request)


class Guarded(httpx.BaseTransport):
    """Sends what the egress guard lets out."""

    def __init__(
        self,
        egress: Egress,
        *,
        limit: int = MOST_READ,
        resolver: Callable[[str, int], Answers] = resolve,
    ) -> None:
        self._egress = egress
        self._limit = limit
        self._pool = httpcore.ConnectionPool(
            ssl_context=httpx.create_ssl_context(),
            max_connections=MOST_CONNECTIONS,
            max_keepalive_connections=KEPT_OPEN,
            keepalive_expiry=KEEP_ALIVE,
            network_backend=Dialler(egress, resolver),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        self._egress.check(str(request.url))
        until = time.monotonic() + self._egress.deadline.total_seconds()
        with spoken_as_httpx(request), ending(until):
            response = self._pool.handle_request(lowered(request))
        try:
            refuse_compressed(response, request)
        except httpx.DecodingError:
            response.close()
            raise
        assert not isinstance(response.stream, bytes)  # noqa: S101
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=Answer(response.stream, request, until, self._limit),  # type: ignore[arg-type]
            extensions=response.extensions,
        )

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()


class AsyncGuarded(httpx.AsyncBaseTransport):
    """The same, awaited. It belongs to the event loop that it is first used in.

    Connections that are free lie on a heap of their own for each origin: the pool of the layer
    below looks at every connection for every request, which cost most of a relay's time
    (decisions/0027). How many there are is for whoever makes the calls to bound.
    """

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
        self._dialler = AsyncDialler(egress, resolver)
        self._tls = httpx.create_ssl_context()
        self._free: dict[Target, list[httpcore.AsyncHTTPConnection]] = {}
        self._busy: set[httpcore.AsyncHTTPConnection] = set()
        self._closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        target = self._egress.check(str(request.url))
        until = time.monotonic() + self._egress.deadline.total_seconds()
        below = lowered(request)
        connection = await self._connection(target, below.url.origin)
        try:
            with spoken_as_httpx(request), ending(until):
                response = await connection.handle_async_request(below)
            if self._unpacked:
                refuse_compressed(response, request)
        except BaseException:
            await self._discard(connection)
            raise

        async def over() -> None:
            await self._over(target, connection)

        stream: Any = response.stream
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=AsyncAnswer(stream, request, until, self._limit, over),
            extensions=response.extensions,
        )

    async def _connection(
        self, target: Target, origin: httpcore.Origin
    ) -> httpcore.AsyncHTTPConnection:
        """One that is free and still good, or a new one."""
        free = self._free.get(target, [])
        while free:
            found = free.pop()
            if found.is_idle() and not found.has_expired():
                self._busy.add(found)
                return found
            await found.aclose()
        self._free.pop(target, None)
        made = httpcore.AsyncHTTPConnection(
            origin,
            ssl_context=self._tls,
            keepalive_expiry=KEEP_ALIVE,
            network_backend=self._dialler,
        )
        self._busy.add(made)
        return made

    async def _over(self, target: Target, connection: httpcore.AsyncHTTPConnection) -> None:
        """An answer was read, or given up: the connection is free, or of no more use."""
        if self._closed or not connection.is_idle() or len(self._free) > MOST_ORIGINS:
            await self._discard(connection)
            return
        self._busy.discard(connection)
        self._free.setdefault(target, []).append(connection)

    async def _discard(self, connection: httpcore.AsyncHTTPConnection) -> None:
        self._busy.discard(connection)
        await surely(connection.aclose())

    async def aclose(self) -> None:
        """Close every connection."""
        self._closed = True
        left = [*self._busy, *(one for free in self._free.values() for one in free)]
        self._free.clear()
        for connection in left:
            await connection.aclose()
