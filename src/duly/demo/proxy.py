"""A proxy between duly and PostgreSQL that loses replies, and sometimes requests.

A reply whose last message says that no transaction is open answers a COMMIT, or a statement that
committed by itself: when it is lost, the server has committed and the client does not know. So no
message has to be parsed, only the last six bytes of what the server sends.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from duly.demo.context import CounterIndex

if TYPE_CHECKING:
    from random import Random

    from duly.demo.context import SharedCounters
    from duly.demo.databases import Server

# ReadyForQuery, with no transaction open.
READY = b"Z\x00\x00\x00\x05I"
# The share of transactions whose reply is lost, and of requests that never arrive.
REPLY_LOST, REQUEST_LOST = 0.01, 0.001


class Proxy:
    """Connects clients to the server, and decides what is lost."""

    def __init__(self, server: Server, shared: SharedCounters, dice: Random) -> None:
        self._server = server
        self._shared = shared
        self._dice = dice

    async def connect_to_server(self, client: asyncio.Transport) -> asyncio.Transport:
        """Open a connection to the server for a client."""
        loop, (host, port) = asyncio.get_running_loop(), self._server

        def end() -> ServerEnd:
            return ServerEnd(self, client)

        if host.startswith("/"):
            transport, _ = await loop.create_unix_connection(end, f"{host}/.s.PGSQL.{port}")
        else:
            transport, _ = await loop.create_connection(end, host, port)
        return transport

    def lose_reply(self) -> bool:
        """Return True if the reply that was just read is lost."""
        return self._roll_loss(REPLY_LOST, CounterIndex.REPLIES_LOST)

    def lose_request(self) -> bool:
        """Return True if the request that was just read is lost."""
        return self._roll_loss(REQUEST_LOST, CounterIndex.REQUESTS_LOST)

    def _roll_loss(self, share: float, counter: CounterIndex) -> bool:
        lost = self._dice.random() < share and not self._shared[CounterIndex.CALM]
        if lost:
            self._shared.add(counter)
        return lost


class ClientEnd(asyncio.Protocol):
    """The end towards duly."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._transport: asyncio.Transport | None = None
        self._server: asyncio.Transport | None = None
        self._early: list[bytes] = []
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connect to the server."""
        self._transport = transport  # type: ignore[assignment]
        self._task = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        assert self._transport is not None  # noqa: S101  # it was made before this
        client = self._transport
        try:
            server = await self._proxy.connect_to_server(client)
        except OSError:
            client.abort()
            return
        self._server = server
        if client.is_closing():
            server.abort()
        server.writelines(self._early)
        self._early = []

    def data_received(self, data: bytes) -> None:
        """Pass a request on, or lose it together with the connection."""
        if self._server is None:
            self._early.append(data)
        elif self._proxy.lose_request():
            self._disconnect()
        else:
            self._server.write(data)

    def connection_lost(self, _problem: Exception | None) -> None:
        """Close the server's side too."""
        if self._server is not None:
            self._server.close()

    def _disconnect(self) -> None:
        for end in (self._transport, self._server):
            if end is not None:
                end.abort()


class ServerEnd(asyncio.Protocol):
    """The end towards the server."""

    def __init__(self, proxy: Proxy, client: asyncio.Transport) -> None:
        self._proxy = proxy
        self._client = client
        self._transport: asyncio.Transport | None = None
        self._handshake_done = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Pass a reply on, or lose it together with the connection."""
        if data.endswith(READY):
            if self._handshake_done and self._proxy.lose_reply():
                self._client.abort()
                if self._transport is not None:
                    self._transport.abort()
                return
            self._handshake_done = True
        self._client.write(data)

    def connection_lost(self, _problem: Exception | None) -> None:
        """Close the client's side too."""
        self._client.close()
