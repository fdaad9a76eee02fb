"""A bad wire between two applications: requests and replies are lost, and requests come twice.

It is a proxy that both sides take for the other one. What happens to a request is drawn from dice
with a seed; where B is away for a moment, requests wait for it.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from types import TracebackType

# Of a hundred requests.
FATES = {
    "passed on": 62,
    "request lost": 8,
    "reply lost": 14,
    "doubled at once": 10,
    "doubled later": 6,
}
# Seconds that a request waits for B, and B's answer is waited for.
AWAY, ANSWER = 4.0, 8.0
# Copies that are kept before the first of them is sent.
KEPT = 20


class Request(NamedTuple):
    """What A sent."""

    path: str
    headers: dict[str, str]
    body: bytes


class Reply(NamedTuple):
    """What B answered."""

    status: int
    body: bytes


class Wire:
    """The address that A sends to, and what went over the wire."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._lock = threading.Condition()
        self._target: str | None = None
        self._kept: list[Request] = []
        # What happened to requests, and what B said.
        self.fates: Counter[str] = Counter()
        self.said: Counter[str] = Counter()
        self._server = Server(self)
        self.origin = f"http://127.0.0.1:{self._server.server_address[1]}"

    def lead_to(self, url: str | None) -> None:
        """Where B is from now on; nowhere while it is away."""
        with self._lock:
            self._target = url
            self._lock.notify_all()

    def carry(self, request: Request) -> Reply | None:
        """What A gets to hear; None where the connection is cut."""
        fate = self._draw()
        if fate == "request lost":
            return None
        if fate == "doubled later":
            self._keep(request)
        copy = threading.Thread(target=self._ask, args=[request])
        if fate == "doubled at once":
            copy.start()
        reply = self._ask(request)
        if copy.ident is not None:
            copy.join()
        return None if fate == "reply lost" else reply

    def send_kept(self) -> None:
        """Send every copy that is still kept: long after the others, to B's surprise."""
        while (copy := self._late(0)) is not None:
            self._ask(copy)

    def _draw(self) -> str:
        with self._lock:
            [fate] = self._dice.choices(list(FATES), weights=list(FATES.values()))
            self.fates[fate] += 1
            return fate

    def _keep(self, request: Request) -> None:
        with self._lock:
            self._kept.append(request)
        if (late := self._late(KEPT)) is not None:
            self._ask(late)

    def _late(self, least: int) -> Request | None:
        with self._lock:
            return self._kept.pop(0) if len(self._kept) > least else None

    def _ask(self, request: Request) -> Reply | None:
        """Ask B; None where it did not answer, and may have taken the request."""
        until = time.monotonic() + AWAY
        while (target := self._there(until)) is not None:
            try:
                reply = asked(target, request)
            except ConnectionRefusedError:  # it was killed, and the wire is told in a moment
                time.sleep(0.01)
                continue
            except (OSError, http.client.HTTPException):
                return None
            self._hear(reply)
            return reply
        return None

    def _there(self, until: float) -> str | None:
        with self._lock:
            self._lock.wait_for(lambda: self._target is not None, until - time.monotonic())
            return self._target if time.monotonic() < until else None

    def _hear(self, reply: Reply) -> None:
        told = json.loads(reply.body)
        with self._lock:
            self.said[told.get("status") or told["error"]] += 1

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=[0.02], daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def asked(target: str, request: Request) -> Reply:
    """One request on a connection of its own."""
    parts = urlsplit(target)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=ANSWER)
    try:
        connection.request("POST", request.path, request.body, request.headers)
        found = connection.getresponse()
        return Reply(found.status, found.read())
    finally:
        connection.close()


class Server(ThreadingHTTPServer):
    """A's end of the wire."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        super().__init__(("127.0.0.1", 0), Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever is killed does not read his reply."""


class Handler(BaseHTTPRequestHandler):
    """One connection of A's."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_POST(self) -> None:
        """Carry a request, and what is answered, if anything is."""
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        reply = None
        if len(body) == length:
            headers = {name: value for name, value in self.headers.items() if name != "Host"}
            reply = self.server.wire.carry(Request(self.path, headers, body))
        if reply is None:
            self.close_connection = True
            return
        head = f"HTTP/1.1 {reply.status} Told\r\nContent-Length: {len(reply.body)}\r\n\r\n"
        self.wfile.write(head.encode() + reply.body)

    def log_message(self, format: str, *args: object) -> None:
        """Not on the tests' own output."""
