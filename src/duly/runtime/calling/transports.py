"""The egress guard as httpx transports, for code that blocks and awaited.

A request is checked before anything is opened, its whole duration is bounded, and so is what is
read of the answer. Proxies of the environment play no part: httpx asks for them only where it is
given no transport.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import h11
import httpcore
import httpx

from duly.runtime.calling.deadlines import ending, within_a_head
from duly.runtime.calling.dialling import AsyncDialler, Dialler, resolve
from duly.runtime.calling.heaps import Heap
from duly.runtime.calling.speaking import Speaker
from duly.stores.surely import surely, to_its_end

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Sequence

    from duly.outbox.egress import Egress, Target
    from duly.runtime.calling.dialling import Answers
    from duly.runtime.calling.speaking import Head

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
# For what a job asks; a message of the outbox needs only an acknowledgement.
MOST_READ = 10 * 1024 * 1024


@contextmanager
def spoken_as_httpx(request: httpx.Request) -> Iterator[None]:
    """The errors of the layer below under the names that users of httpx know."""
    try:
        yield
    except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as problem:
        known = getattr(httpx, type(problem).__name__, httpx.TransportError)
        raise known(str(problem) or type(problem).__name__, request=request) from problem
    except h11.LocalProtocolError as problem:
        raise httpx.LocalProtocolError(str(problem), request=request) from problem
    except h11.RemoteProtocolError as problem:
        raise httpx.RemoteProtocolError(str(problem), request=request) from problem
    except httpcore.UnsupportedProtocol as problem:
        raise httpx.UnsupportedProtocol(str(problem), request=request) from problem


def lowered(request: httpx.Request) -> httpcore.Request:
    """A request as the layer below takes it."""
    return httpcore.Request(
        method=request.method,
        url=httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        ),
        headers=uncompressed(request),
        content=request.stream,
        extensions={
            name: value for name, value in request.extensions.items() if name != "sni_hostname"
        },
    )


def uncompressed(request: httpx.Request) -> list[tuple[bytes, bytes]]:
    """The headers of a request, never asking for a compressed answer."""
    headers = [
        (name, value) for name, value in request.headers.raw if name.lower() != b"accept-encoding"
    ]
    return [*headers, (b"Accept-Encoding", b"identity")]


def refuse_compressed(headers: Sequence[tuple[bytes, bytes]], request: httpx.Request) -> None:
    """A small answer must not unfold into a large one."""
    for name, value in headers:
        if name.lower() == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
            raise httpx.DecodingError(
                "the answer is compressed although that was not asked for", request=request
            )


def trusting() -> ssl.SSLContext:
    """Whom to believe under TLS: the usual authorities, or those that the environment names."""
    names = (os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    return trusting_by(names)


@lru_cache(maxsize=4)
def trusting_by(_: tuple[str | None, ...]) -> ssl.SSLContext:
    """Made once: to read the certificates of all authorities takes tens of milliseconds."""
    return httpx.create_ssl_context()


class Answer(httpx.SyncByteStream):
    """The body of an answer, read in time and up to a limit."""

    def __init__(
        self,
        stream: Any,
        request: httpx.Request,
        until: float,
        limit: int,
        over: Callable[[], None],
    ) -> None:
        self._stream = stream
        self._request = request
        self._until = until
        self._limit = limit
        self._over = over

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
        self._stream.close()
        self._over()


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
        await to_its_end(self._closed())

    async def _closed(self) -> None:
        await self._stream.aclose()
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
        self._resolver = resolver
        self._tls = trusting()
        self._heap: Heap[httpcore.HTTPConnection] = Heap(usable)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        target = self._egress.check(address_of(request))
        until = time.monotonic() + self._egress.deadline.total_seconds()
        connection, kept = self._connection(target, request)
        try:
            with spoken_as_httpx(request), ending(until), within_a_head():
                response = connection.handle_request(lowered(request))
            refuse_compressed(response.headers, request)
        except BaseException as problem:
            self._heap.drop(connection)
            connection.close()
            if kept and repeatable(request, problem):
                return self.handle_request(request)
            raise

        def over() -> None:
            closed(self._heap.put(spelled(request), connection))

        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=Answer(response.stream, request, until, self._limit, over),
            extensions=response.extensions,
        )

    def _connection(
        self, target: Target, request: httpx.Request
    ) -> tuple[httpcore.HTTPConnection, bool]:
        """One that was kept and is still good, or a new one; and whether it was kept."""
        found, over = self._heap.take(spelled(request))
        closed(over)
        if found is not None:
            return found, True
        made = httpcore.HTTPConnection(
            origin_of(request),
            ssl_context=self._tls,
            network_backend=Dialler(self._egress, target, self._resolver),
        )
        self._heap.add(made)
        return made, False

    def close(self) -> None:
        """Close every connection."""
        closed(self._heap.close())


class AsyncGuarded(httpx.AsyncBaseTransport):
    """The same, awaited. It belongs to the event loop that it is first used in."""

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
        self._resolver = resolver
        self._tls = trusting()
        self._dialler = AsyncDialler(egress, resolver)
        self._heap: Heap[Speaker] = Heap(attrgetter("reusable"))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        target = self._egress.check(address_of(request))
        until = time.monotonic() + self._egress.deadline.total_seconds()
        found, over = self._heap.take(spelled(request))
        if over:
            await to_its_end(aclosed(over))
        speaker = found
        try:
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
                return await self.handle_async_request(request)
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
        origin = origin_of(request)
        host = origin.host.decode("ascii")
        line = await self._dialler.dial(target, host, origin.port, limit)
        try:
            if target.scheme == "https":
                await line.start_tls(self._tls, host, limit)
        except BaseException:  # given up in the middle of it, nobody else would close it
            await surely(line.aclose())
            raise
        speaker = Speaker(line)
        self._heap.add(speaker)
        return speaker

    async def aclose(self) -> None:
        """Close every connection."""
        await aclosed(self._heap.close())


def usable(connection: httpcore.HTTPConnection) -> bool:
    """Whether a connection can carry another request: free, open, and with nothing left to read.

    What a receiver sent beyond its answer would be taken for the answer to the next request.
    """
    if not connection.is_idle() or connection.has_expired():
        return False
    parser = getattr(getattr(connection, "_connection", None), "_h11_state", None)
    trailing = getattr(parser, "trailing_data", (b"unknown", True))
    return not trailing[0]


def repeatable(request: httpx.Request, problem: BaseException) -> bool:
    """Whether to try once more on a new connection, after one that was kept has failed.

    The other side may have closed it at that very moment. What it did before that it knows by the
    idempotency key, so that nothing is done twice.
    """
    broken = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)
    whole = isinstance(request.stream, httpx.ByteStream)
    known = request.method in SAFE or "idempotency-key" in request.headers
    return isinstance(problem, broken) and whole and known


def address_of(request: httpx.Request) -> str:
    """The URL of a request as it is sent: the part behind # never is."""
    return str(request.url).partition("#")[0]


def origin_of(request: httpx.Request) -> httpcore.Origin:
    """Where a request goes, as the layer below says it."""
    url = request.url
    usual = 443 if url.scheme == "https" else 80
    return httpcore.Origin(url.raw_scheme, url.raw_host, url.port or usual)


def spelled(request: httpx.Request) -> Hashable:
    """What a connection can be used again for: the layer below compares the spelling of a host."""
    return request.url.raw_scheme, request.url.raw_host, request.url.port


def closed(connections: list[httpcore.HTTPConnection]) -> None:
    """Close what is over."""
    for connection in connections:
        connection.close()


async def aclosed(connections: list[Speaker]) -> None:
    """Close what is over."""
    for connection in connections:
        await connection.aclose()
