"""A connection whose headers must come in time and in bounds.

An ASGI application is called when the headers are complete; until then only the server can end a
connection that sends a byte a minute, or headers without end. uvicorn with httptools does neither
by itself.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from duly.edge import asgi
from duly.edge.lanes import RETRY_AFTER
from duly.edge.replies import Fault
from duly.edge.replies import refusal as reply_of
from duly.edge.site import HEALTH, READY

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection

    from duly.edge.asgi import Receive, Scope, Send

# From the first byte to the last header. No sender of webhooks needs a second.
HEADER_SECONDS: Final = 10.0
# What may have come while the headers are still not complete.
HEADER_ROOM: Final = 64 * 1024


def refusal(status: bytes, error: bytes, reason: bytes) -> bytes:
    """A whole answer, in the words of the edge."""
    body = b'{"error": "%b", "reason": "%b"}' % (error, reason)
    return (
        b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
        b"connection: close\r\n\r\n%b" % (status, len(body), body)
    )


TOO_SLOW: Final = refusal(
    b"408 Request Timeout", b"TOO_SLOW", b"the headers did not arrive in time"
)
TOO_LARGE: Final = refusal(
    b"431 Request Header Fields Too Large",
    b"HEADERS_TOO_LARGE",
    b"at most %d bytes are read as headers" % HEADER_ROOM,
)
OVERLOADED: Final = reply_of(
    Fault.OVERLOADED,
    "too many connections are open: come again in a moment",
    {"retry_after": str(RETRY_AFTER.seconds)},
)


class Patient(FlowControl):
    """Reads on only when no request waits for its turn: uvicorn would queue them without end."""

    def __init__(self, transport: asyncio.Transport, waiting: Collection[object]) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        """Read on, unless there is enough to do."""
        if not self._waiting:
            super().resume_reading()


class Bounded(HttpToolsProtocol):
    """uvicorn's connection, with an end to the patience for headers."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # uvicorn's own refusal is not in the access log, and would fail the probes as well.
        self._most, self.limit_concurrency = self.limit_concurrency, None
        self._served = self.app
        self._in_headers = True
        self._begun = False
        self._between = True  # no request is under way
        self._size = self._whole = 0
        self._due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self.flow = Patient(transport, self.pipeline)
        self._due = self.loop.call_later(HEADER_SECONDS, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._forget_due()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse; what is left of the headers afterwards must come soon, and not be too much."""
        if self._in_headers:
            self._size += len(data)
        # All of it counts for a request that begins with it. Where one begins behind the end of
        # another is not known, so for such a one the count begins with the next piece.
        self._whole = len(data) if self._between else 0
        super().data_received(data)
        if not self._in_headers:
            self._size = 0
            self._forget_due()
        elif self._size > HEADER_ROOM:
            self._refuse(TOO_LARGE)
        elif self._due is None and not self.transport.is_closing():
            self._due = self.loop.call_later(HEADER_SECONDS, self._too_slow)

    def on_message_begin(self) -> None:
        """A request begins."""
        self._in_headers = self._begun = True
        self._between = False
        self._size, self._whole = self._whole, 0
        super().on_message_begin()

    def on_message_complete(self) -> None:
        """The whole request is here."""
        self._between = True
        super().on_message_complete()

    def on_headers_complete(self) -> None:
        """From here on the application bounds what is read."""
        self._in_headers = False
        full = self._most is not None and len(self.connections) > self._most
        self.app = self._refusing if full else self._served
        super().on_headers_complete()

    async def _refusing(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer for the application while there are too many connections."""
        if scope["path"] in (HEALTH, READY):
            await self._served(scope, receive, send)
            return
        asgi.log(scope["method"], scope["path"], OVERLOADED, time.perf_counter())
        headers = [(name.encode(), value.encode()) for name, value in OVERLOADED.pairs()]
        status = OVERLOADED.status
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": OVERLOADED.body})

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing: such a request is answered like any other, and is in the access log."""

    def _too_slow(self) -> None:
        self._due = None
        self._refuse(TOO_SLOW)

    def _refuse(self, reply: bytes) -> None:
        self._forget_due()
        if not getattr(self.cycle, "response_complete", True):  # None before the first request
            # An earlier request is still being answered: it is, and nothing more is read.
            self.cycle.keep_alive = False
            self.flow.pause_reading()
        elif not self.transport.is_closing():
            if self._begun:  # otherwise nothing was asked
                self.transport.write(reply)
            self.transport.close()

    def _forget_due(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
