"""Rules for every request, sync or async: its headers, what is refused, and its errors.

A request is checked before anything is opened, its whole duration is bounded, and so is what is
read of the response. Proxies of the environment play no part: httpx asks for them only where it is
given no transport.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

import h11
import httpcore
import httpx

if TYPE_CHECKING:
    import ssl
    from collections.abc import Hashable, Iterator, Sequence

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
# Bytes of a response to a job's call; a message of the outbox needs only an acknowledgement.
MOST_READ = 10 * 1024 * 1024


@contextmanager
def as_httpx_errors(request: httpx.Request) -> Iterator[None]:
    """Turn errors of httpcore and h11 into httpx's."""
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


def identity_headers(request: httpx.Request) -> list[tuple[bytes, bytes]]:
    """The headers of a request, never asking for a compressed response."""
    headers = [
        (name, value) for name, value in request.headers.raw if name.lower() != b"accept-encoding"
    ]
    return [*headers, (b"Accept-Encoding", b"identity")]


def refuse_compressed(headers: Sequence[tuple[bytes, bytes]], request: httpx.Request) -> None:
    """Refuse a compressed response: a small one could decompress into a large one."""
    for name, value in headers:
        if name.lower() == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
            raise httpx.DecodingError(
                "the response is compressed although that was not asked for", request=request
            )


def refuse_longer(read: int, limit: int, request: httpx.Request) -> None:
    """Raise where more was read than the limit."""
    if read > limit:
        raise httpx.ReadError(f"the response is longer than {limit:,} bytes", request=request)


def is_repeatable(request: httpx.Request, problem: BaseException) -> bool:
    """Whether to try once more on a new connection, after one that was kept has failed.

    The server may have closed it at that very moment. If it had acted on the request, it knows the
    idempotency key, so that nothing is done twice.
    """
    broken = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)
    whole = isinstance(request.stream, httpx.ByteStream)
    known = request.method in SAFE or "idempotency-key" in request.headers
    return isinstance(problem, broken) and whole and known


def ssl_context() -> ssl.SSLContext:
    """Trust the usual certificate authorities, or those that the environment names."""
    names = (os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    return cached_ssl_context(names)


@lru_cache(maxsize=4)
def cached_ssl_context(_: tuple[str | None, ...]) -> ssl.SSLContext:
    """Build the context once: reading all certificates takes tens of milliseconds."""
    context = httpx.create_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def address_of(request: httpx.Request) -> str:
    """The URL of a request without its fragment, which is never sent."""
    return str(request.url).partition("#")[0]


def origin_of(request: httpx.Request) -> httpcore.Origin:
    """The origin of a request, for httpcore."""
    url = request.url
    usual = 443 if url.scheme == "https" else 80
    return httpcore.Origin(url.raw_scheme, url.raw_host, url.port or usual)


def pool_key(request: httpx.Request) -> Hashable:
    """Requests of one key can share a connection: scheme, host as spelled, and port."""
    return request.url.raw_scheme, request.url.raw_host, request.url.port
