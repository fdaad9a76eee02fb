"""Resolve a name once, check every address it has, and connect to a checked one.

The connection is made to the address, while TLS and the Host header still name the host: the
checked address is the one used, and a name that resolves differently later changes nothing.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import contextmanager
from ipaddress import ip_address
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import httpcore

from duly.core.errors import EgressRefused
from duly.http_client.deadlines import count_head_bytes, read_size, time_left
from duly.http_client.stream import TLSTarget, open_stream
from duly.outbox.egress import literal_of, unwrap_mapped
from duly.service.threads import run_on_thread, run_with_timeout

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Iterator

    from duly.http_client.stream import AsyncStream
    from duly.outbox.egress import Egress, Target
    from duly.outbox.networks import Address

# The result of `socket.getaddrinfo`; tests provide a resolver of their own.
AddressInfos = list[tuple[Any, ...]]
# Addresses of a host that are tried at most.
MOST_ADDRESSES = 4
# Seconds for one address while there are others.
CONNECT_SECONDS = 3.0
# Bytes that a socket nearly always takes at once.
SLICE = 16 * 1024


def resolve(host: str, port: int) -> AddressInfos:
    """Ask the system's resolver."""
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def allowed_addresses(egress: Egress, target: Target, host: str, found: AddressInfos) -> list[str]:
    """The addresses to connect to; raise if the egress guard refuses any of them."""
    literal = literal_of(host)
    given = [str(info[4][0]) for info in found] if literal is None else [str(literal)]
    addresses: list[Address] = [unwrap_mapped(ip_address(text)) for text in dict.fromkeys(given)]
    if not addresses:
        raise httpcore.ConnectError(f"no address is known for {host}")
    for address in addresses:
        egress.check_address(target, address)
    return [str(address) for address in interleave_families(addresses)][:MOST_ADDRESSES]


def interleave_families(addresses: list[Address]) -> list[Address]:
    """Addresses of both families in turn, each in the order of the resolver.

    A host whose route is broken in one family is reached in the other.
    """
    first = addresses[0].version
    ours = [one for one in addresses if one.version == first]
    others = [one for one in addresses if one.version != first]
    pairs = zip_longest(ours, others)
    return list(dict.fromkeys(one for pair in pairs for one in pair if one is not None))


def connect_timeout(timeout: float | None, others: int) -> float | None:
    """Seconds to connect to one address: a share of what is left while there are others."""
    rest = time_left(timeout, httpcore.ConnectTimeout)
    if rest is None:
        return CONNECT_SECONDS if others else None
    return min(rest / (others + 1), CONNECT_SECONDS) if others else rest


@contextmanager
def as_connect_errors(host: str) -> Iterator[None]:
    """Turn errors of name resolution into httpcore's connect errors."""
    try:
        yield
    except TimeoutError as problem:
        raise httpcore.ConnectTimeout(f"{host} was not resolved in time") from problem
    except (OSError, UnicodeError) as problem:
        raise httpcore.ConnectError(f"{host} cannot be resolved: {problem}") from problem


def refuse_socket() -> EgressRefused:
    """The error of a request through a unix socket."""
    return EgressRefused("requests do not leave through a unix socket")


class Stream(httpcore.NetworkStream):
    """A connection whose every step ends with the deadline of the request."""

    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read what has arrived, before the deadline."""
        return count_head_bytes(
            self._inner.read(read_size(max_bytes), time_left(timeout, httpcore.ReadTimeout))
        )

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write all of it, in slices: httpcore gives each write the whole timeout anew."""
        for start in range(0, len(buffer), SLICE):
            rest = time_left(timeout, httpcore.WriteTimeout)
            self._inner.write(buffer[start : start + SLICE], rest)

    def close(self) -> None:
        """Close the connection."""
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> Stream:
        """Continue under TLS; the certificate must be the host's."""
        rest = time_left(timeout, httpcore.ConnectTimeout)
        return Stream(self._inner.start_tls(ssl_context, server_hostname, rest))

    def get_extra_info(self, info: str) -> Any:
        """Information from httpcore's stream."""
        return self._inner.get_extra_info(info)


class Connector(httpcore.NetworkBackend):
    """Opens sync connections for httpcore."""

    def __init__(
        self, egress: Egress, target: Target, resolver: Callable[[str, int], AddressInfos] = resolve
    ) -> None:
        self._egress = egress
        self._target = target
        self._resolver = resolver
        self._inner = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> Stream:
        """Resolve, check every address, connect."""
        addresses = allowed_addresses(self._egress, self._target, host, self._resolve(host, port))
        for others, address in zip(range(len(addresses) - 1, -1, -1), addresses, strict=True):
            try:
                rest = connect_timeout(timeout, others)
                return Stream(
                    self._inner.connect_tcp(address, port, rest, local_address, socket_options)
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if not others:
                    raise
        raise httpcore.ConnectError(f"no address is known for {host}")

    def _resolve(self, host: str, port: int) -> AddressInfos:
        if literal_of(host) is not None:
            return []
        with as_connect_errors(host):
            rest = time_left(None, httpcore.ConnectTimeout)
            return run_with_timeout(lambda: self._resolver(host, port), rest)

    def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Refuse: the egress guard cannot check it."""
        raise refuse_socket()


class AsyncConnector:
    """Opens async connections."""

    def __init__(
        self, egress: Egress, resolver: Callable[[str, int], AddressInfos] = resolve
    ) -> None:
        self._egress = egress
        self._resolver = resolver

    async def connect(
        self, target: Target, host: str, limit: float | None, tls: ssl.SSLContext
    ) -> AsyncStream:
        """Resolve, check every address, connect; under TLS for https."""
        port, secured = target.port, TLSTarget(tls, host) if target.scheme == "https" else None
        addresses = allowed_addresses(self._egress, target, host, await self._resolve(host, port))
        for others, address in zip(range(len(addresses) - 1, -1, -1), addresses, strict=True):
            try:
                return await open_stream(address, port, connect_timeout(limit, others), secured)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if not others:
                    raise
        raise httpcore.ConnectError(f"no address is known for {host}")

    async def _resolve(self, host: str, port: int) -> AddressInfos:
        if literal_of(host) is not None:
            return []
        with as_connect_errors(host):
            async with asyncio.timeout(time_left(None, httpcore.ConnectTimeout)):
                return await run_on_thread(lambda: self._resolver(host, port))
