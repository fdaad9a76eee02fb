"""One connection of HTTP/1.1: where its requests end, in which bounds, and how it is closed.

An ASGI application is called when the headers are complete; until then only the server can end a
connection that sends a byte a minute, or headers without end. uvicorn with httptools does neither
by itself. It also takes the body of a request with ``Upgrade`` for the next request, and closes a
connection so that an early answer may be lost (`duly.server.lingering_close`).
"""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from duly.receiver import asgi
from duly.receiver.commit_queue import RETRY_AFTER
from duly.receiver.responses import Fault, refusal_reply
from duly.receiver.router import HEALTH, READY
from duly.server.fast_delivery import FastDelivery, FastPath, log_reply, write_reply
from duly.server.framing import MALFORMED, VERSION, find_fault, find_foreign_targets, write_head
from duly.server.lingering_close import LingeringTransport

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    from duly.receiver.asgi import Receive, Scope, Send
    from duly.receiver.responses import Reply

# From the first byte to the last header. No sender of webhooks needs a second.
HEADER_SECONDS: Final = 10.0
# What may have come while the headers are still not complete.
HEADER_ROOM: Final = 64 * 1024

TOO_SLOW: Final = refusal_reply(Fault.TOO_SLOW, "the headers did not arrive in time", {})
BODY_TOO_SLOW: Final = refusal_reply(Fault.TOO_SLOW, "the body did not arrive in time", {})
TOO_LARGE: Final = refusal_reply(
    Fault.HEADERS_TOO_LARGE, f"at most {HEADER_ROOM} bytes are read as headers", {}
)
OVERLOADED: Final = refusal_reply(
    Fault.OVERLOADED,
    "too many connections are open: come again in a moment",
    {"retry_after": str(RETRY_AFTER.seconds)},
)


async def answer_with(reply: Reply, scope: Scope, _: Receive, send: Send) -> None:
    """Answer in place of the application."""
    asgi.log_request(scope["method"], scope["path"], reply, time.perf_counter())
    headers = [(name.encode(), value.encode()) for name, value in reply.pairs()]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})


def write_answer(reply: Reply) -> bytes:
    """Return a whole answer, for what is no request that the application could answer."""
    lines = [f"{name}: {value}\r\n".encode() for name, value in reply.pairs()]
    return b"".join([STATUS_LINE[reply.status], *lines, b"\r\n", reply.body])


class FaultyHead(Exception):  # ends the parser's work; the answer is on its way already
    """A request whose head was refused."""


class PipelineFlowControl(FlowControl):
    """Reads on only when no request waits for its turn: uvicorn would queue them without end."""

    def __init__(self, transport: asyncio.Transport, waiting: Collection[object]) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        """Read on, unless requests wait."""
        if not self._waiting:
            super().resume_reading()


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's connection, with bounds on the time and size of headers."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # uvicorn's own refusal is not in the access log, and would fail the probes as well.
        self._max_connections, self.limit_concurrency = self.limit_concurrency, None
        self._wrapped_app = self.app
        self._in_headers = True
        self._begun = False
        self._between_requests = True  # no request is under way
        self._stopped_parsing = False  # nothing more is parsed
        self._upgrading = False  # httptools ends this request at its headers
        self._fault = MALFORMED  # what is said where the parser stops
        self._size = self._whole = 0
        self._received = b""  # holds the head of the request that is being read
        self._first = True  # and begins with it
        self._foreign: dict[bool, frozenset[bytes]] = {}  # targets there, by `_first`
        self._header_timer: asyncio.TimerHandle | None = None
        self._fast_path = FastPath(self.app)
        self._arriving: FastDelivery | None = None  # its body is not complete
        self._body_timer: asyncio.TimerHandle | None = None

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        closing = LingeringTransport(transport, self.loop, self._may_be_sending)
        self._closing = closing
        super().connection_made(cast("asyncio.Transport", closing))
        self.flow = PipelineFlowControl(self.transport, self.pipeline)
        self._header_timer = self.loop.call_later(HEADER_SECONDS, self._on_header_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers."""
        self._cancel_header_timer()
        self._closing.forget()
        if self._arriving is not None:
            self._end_arrival().release()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Answer what is under way; a client that goes on sending is given less time."""
        self._closing.hurry()
        super().shutdown()

    def data_received(self, data: bytes) -> None:
        """Parse; the rest of the headers must come in time, and within bounds."""
        if self.transport.is_closing():
            self._closing.discard(len(data))
        elif not self._stopped_parsing:
            self._size += len(data)
            # All of it counts for a request that begins with it. Where one begins behind the end
            # of another is not known, so for such a one the count begins with the next piece.
            self._whole = len(data) if self._between_requests else 0
            # No copy of a piece that has a head whole: most of it may be a large body.
            self._received = self._received + data if self._received else data
            if self._foreign:
                self._foreign.clear()
            self._parse(data)
            if self._arriving is not None and self._body_timer is None:
                seconds = self._arriving.router.body_deadline
                self._body_timer = self.loop.call_later(seconds, self._on_body_timeout)
            if self._between_requests or not self._in_headers:
                self._received = b""
                self._first = self._between_requests
            self._check_bounds()

    # The parser

    def _parse(self, data: bytes) -> None:
        pieces: list[bytes | memoryview] = [data]
        while pieces:
            piece = pieces.pop()
            try:
                self.parser.feed_data(piece)
            except httptools.HttpParserUpgrade as stopped:
                pieces += [memoryview(piece)[stopped.args[0] :], self._restart_parser()]
            except httptools.HttpParserError as problem:
                if not self._stopped_parsing:
                    self.logger.warning("a request could not be read: %s", problem)
                    self._refuse(self._fault)
                return

    def _restart_parser(self) -> bytes:
        """Begin a request with Upgrade once more; returns its head, without that header.

        RFC 9110 lets a server ignore the header (section 7.8). httptools ends such a request at
        its headers and has no setting for that, so a fresh parser reads what makes no difference
        to where the request ends, and then its body.
        """
        head = write_head(
            self.parser.get_method(), self.url, self.parser.get_http_version(), self.headers
        )
        self._upgrading = False
        self.parser = httptools.HttpRequestParser(self)
        with suppress(AttributeError):  # httptools before 0.6.3; the same as uvicorn asks for
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return head

    def _check_bounds(self) -> None:
        """Bound what has come and is no body: headers, trailers, the lines between chunks."""
        if not self._between_requests:
            self._unset_keepalive_if_required()
        if not self._in_headers and self._header_timer is not None:
            self._cancel_header_timer()
        if self._stopped_parsing:
            return
        if self._size > HEADER_ROOM:
            if not self.transport.is_closing():
                self._refuse(TOO_LARGE)
        elif self._in_headers and self._header_timer is None and not self.transport.is_closing():
            self._header_timer = self.loop.call_later(HEADER_SECONDS, self._on_header_timeout)

    def on_message_begin(self) -> None:
        """Start counting a request."""
        self._in_headers = self._begun = True
        self._between_requests = False
        self._size, self._whole = self._whole, 0
        self._unset_keepalive_if_required()
        # uvicorn makes a scope here, which only ASGI needs (`_begin_scope`).
        self.url, self.headers, self.expect_100_continue = b"", [], False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; ignore a trailer, which comes after the body."""
        if self._in_headers:
            name = name.lower()
            if name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """From here on the application bounds what is read."""
        method = self.parser.get_method()
        if self.parser.should_upgrade() and method != b"CONNECT":
            self._upgrading = True
            return
        if method == b"POST" and self._is_idle() and self.parser.get_http_version() == "1.1":
            delivery = self._fast_path.find_delivery(self, self._received)
            if delivery is not None:
                self._arriving = delivery
                self.cycle = cast("RequestResponseCycle", delivery)
                self._in_headers = False
                self._size = 0
                return
        self._begin_scope()
        fault = VERSION if self._is_foreign(self.url) else None
        fault = fault or find_fault(method, self.parser.get_http_version(), self.headers)
        self._fault = fault or MALFORMED
        self.app = self._choose_app(fault)
        super().on_headers_complete()
        self._in_headers = False
        self._size = 0
        if fault is not None:
            self._stopped_parsing = True
            raise FaultyHead

    def _is_idle(self) -> bool:
        """Return True where no other request is under way, and an answer could be sent at once."""
        return (
            getattr(self.cycle, "response_complete", True)  # None before the first request
            and not self.pipeline
            and not self.flow.write_paused
            and not self.transport.is_closing()
            and not self._is_over_limit()
        )

    def _begin_scope(self) -> None:
        """Make uvicorn's scope of the request whose headers are complete."""
        url, headers, expect = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expect
        self.headers += headers

    def _is_foreign(self, target: bytes) -> bool:
        """Return True where the request line names another protocol than HTTP."""
        if self._first not in self._foreign:
            found = find_foreign_targets(self._received, first=self._first)
            self._foreign[self._first] = found
        return target in self._foreign[self._first]

    def _choose_app(self, fault: Reply | None) -> Any:
        """Choose what answers the request."""
        if fault is not None:
            return partial(answer_with, fault)
        return self._serve_over_limit if self._is_over_limit() else self._wrapped_app

    def _is_over_limit(self) -> bool:
        """Return True while more connections are open than may be."""
        return self._max_connections is not None and len(self.connections) > self._max_connections

    async def _serve_over_limit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 503 in place of the application, except for its probes."""
        if scope["path"] in (HEALTH, READY):
            await self._wrapped_app(scope, receive, send)
        else:
            await answer_with(OVERLOADED, scope, receive, send)

    def on_body(self, body: bytes) -> None:
        """Reset the bound on headers: the application bounds the body."""
        self._size = 0
        if self._arriving is not None:
            if self._arriving.add(body):
                return
            self._hand_over()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request, unless it is parsed again without its Upgrade."""
        if not self._upgrading:
            self._between_requests = True
            self._first = False
            self._size = 0
            if not self.parser.should_keep_alive():  # a trailer counts here: nothing more is read
                self.cycle.keep_alive = False
            if self._arriving is None:
                super().on_message_complete()
            else:
                self._submit()

    # Deliveries that take no ASGI

    def _end_arrival(self) -> FastDelivery:
        """Return the delivery that is arriving; wait no longer for its body."""
        delivery, self._arriving = self._arriving, None
        assert delivery is not None  # noqa: S101  # asked by the caller
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None
        return delivery

    def _on_body_timeout(self) -> None:
        delivery = self._end_arrival()
        self._stopped_parsing = True
        self._answer(delivery, BODY_TOO_SLOW)

    def _hand_over(self) -> None:
        """Take a delivery through ASGI, which refuses what there is no memory for."""
        delivery = self._end_arrival()
        body = delivery.body
        delivery.release()
        self.cycle = delivery.previous
        self._begin_scope()
        self.app = self._choose_app(None)
        super().on_headers_complete()
        if body:
            super().on_body(body)

    def _submit(self) -> None:
        """Have a complete delivery verified and committed.

        Reading is not paused for it, which would cost more than all of its parsing. A request that
        comes meanwhile is queued behind it, and then nothing more is read until the answer.
        """
        delivery = self._end_arrival()
        delivery.previous = None  # or each would keep the one before it, without end
        delivery.router.receiver.submit(
            delivery.route, delivery.request, delivery.body, partial(self._answer, delivery)
        )

    def _answer(self, delivery: FastDelivery, reply: Reply) -> None:
        """Write the answer of a delivery, unless its sender has gone."""
        delivery.response_complete = True
        delivery.release()
        log_reply(delivery, reply)
        if self.transport.is_closing():
            return
        self.transport.write(write_reply(delivery, reply, self.server_state.default_headers))
        if not delivery.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def is_delivering(self) -> bool:
        """Return True while a delivery that takes no ASGI is not answered."""
        return isinstance(self.cycle, FastDelivery) and not self.cycle.response_complete

    # The answers

    def on_response_complete(self) -> None:
        """Go on with the next request, unless the body of this one is still coming."""
        super().on_response_complete()
        if self._in_body() and self.cycle.response_complete:
            self.transport.close()
        elif not self._between_requests:  # the next request has begun: its own timers hold
            self._unset_keepalive_if_required()

    def _in_body(self) -> bool:
        """Return True while the body of the last request is not complete."""
        return not (self._between_requests or self._in_headers)

    def _may_be_sending(self) -> bool:
        """Return True where unread bytes may be on their way."""
        return self._stopped_parsing or not self._between_requests or self.flow.read_paused

    def _on_header_timeout(self) -> None:
        self._header_timer = None
        if self.pipeline:
            # Earlier requests wait for the server, which reads nothing meanwhile: the rest of this
            # head may have come long ago.
            self._header_timer = self.loop.call_later(HEADER_SECONDS, self._on_header_timeout)
        else:
            self._refuse(TOO_SLOW)

    def _refuse(self, reply: Reply) -> None:
        """Parse nothing more, answer when it is this request's turn, and close."""
        self._cancel_header_timer()
        if not self._begun:  # nothing was asked
            self.transport.close()
            return
        self._stopped_parsing = True
        if self._in_body():
            self._refuse_body(reply)
        elif not getattr(self.cycle, "response_complete", True):  # None before the first request
            # An earlier request is still being answered: it is, and nothing more is read.
            self.cycle.keep_alive = False
            self.flow.pause_reading()
        elif not self.transport.is_closing():
            self.transport.write(write_answer(reply))
            self.transport.close()

    def _refuse_body(self, reply: Reply) -> None:
        """Refuse the last request in the midst of its body."""
        cycle = self.cycle
        if self.pipeline and self.pipeline[0][0] is cycle:  # it waits for its turn
            self.pipeline[0] = (cycle, partial(answer_with, reply))
        elif cycle.response_started:
            cycle.keep_alive = False  # it closes the connection when its answer is complete
        else:
            cycle.disconnected = True  # the application waits for a body that has no end
            cycle.message_event.set()
            self.transport.write(write_answer(reply))
            self.transport.close()

    def _cancel_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None
