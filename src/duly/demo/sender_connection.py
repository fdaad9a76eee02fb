"""A connection of the sender: one request at a time, kept alive, as lean as Python allows."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from duly.demo.traffic import PlannedDelivery

LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)
STATUS = re.compile(rb'"status": "(\w+)"')


class SenderAnswer(NamedTuple):
    """An answer: the HTTP status, and the status in duly's body."""

    code: int
    status: str


class ConnectionOwner(Protocol):
    """What a connection calls."""

    def on_connection_free(self, connection: SenderConnection) -> None:
        """The connection can take another request."""

    def on_answer(self, delivery: PlannedDelivery, answer: SenderAnswer | None) -> None:
        """A delivery was answered; None where the connection was lost before."""

    def on_connection_lost(self, connection: SenderConnection) -> None:
        """The connection was lost."""


class SenderConnection(asyncio.Protocol):
    """One connection."""

    def __init__(self, owner: ConnectionOwner) -> None:
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._ended = False
        self.delivery: PlannedDelivery | None = None
        self.since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready for the first request."""
        self._transport = transport  # type: ignore[assignment]
        self._owner.on_connection_free(self)

    def send(self, delivery: PlannedDelivery, request: bytes, now: float, *, hang_up: bool) -> None:
        """Send a request, and read its answer or hang up before that."""
        assert self._transport is not None  # noqa: S101  # it is free, so it is there
        self.delivery, self.since = delivery, now
        self._transport.write(request)
        if hang_up:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        """Read an answer, which usually comes in one piece."""
        received = self._received + data if self._received else data
        end = received.find(b"\r\n\r\n")
        found = LENGTH.search(received, 0, end + 2) if end >= 0 else None
        size = int(found.group(1)) if found else 0
        if end < 0 or len(received) < end + 4 + size:
            self._received = received
            return
        self._received = b""
        status = STATUS.search(received, end)
        delivery, self.delivery = self.delivery, None
        answer = SenderAnswer(int(received[9:12]), status.group(1).decode() if status else "")
        if delivery is not None:
            self._owner.on_answer(delivery, answer)
        if b"\r\nconnection: close" in received[: end + 2]:
            self.drop()
        elif not self._ended:
            self._owner.on_connection_free(self)

    def connection_lost(self, _problem: Exception | None) -> None:
        """Report that a delivery on its way has no answer."""
        self._ended = True
        delivery, self.delivery = self.delivery, None
        if delivery is not None:
            self._owner.on_answer(delivery, None)
        self._owner.on_connection_lost(self)

    def drop(self) -> None:
        """Hang up."""
        self._ended = True
        if self._transport is not None:
            self._transport.abort()
