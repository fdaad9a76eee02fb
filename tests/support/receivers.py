"""A real endpoint on a real port: it verifies with the gate, and remembers what it has seen."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import duly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Reply = tuple[int, bytes]


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        found = [value for one, value in self.headers if one.lower() == name.lower()]
        return found[0] if len(found) == 1 else None


@dataclass
class Receiver:
    """What arrived at ``url``, and what each of it was told."""

    url: str
    answer: Callable[[Seen], Reply]
    seen: list[Seen] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, request: Seen) -> Reply:
        with self.lock:
            self.seen.append(request)
        return self.answer(request)


class Inbox:
    """Answers as duly does: verify, then tell the first from its duplicates."""

    def __init__(self, source: duly.Source) -> None:
        self.source = source
        self.events: list[duly.types.VerifiedDelivery] = []
        self.base = ""
        self._lock = threading.Lock()

    def __call__(self, request: Seen) -> Reply:
        try:
            event = duly.verify(
                self.source, request.headers, request.body, url=self.base + request.path
            )
        except duly.errors.Rejected as problem:
            return told(problem.status, error=problem.code, reason=problem.reason)
        with self._lock:
            known = any(one.id == event.id for one in self.events)
            self.events.append(event)
        return told(200, status="duplicate" if known else "accepted", event=event.id)


def told(code: int, /, **members: str) -> Reply:
    return code, json.dumps(members).encode()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


@contextmanager
def receiving(answer: Callable[[Seen], Reply], path: str = "/hook") -> Iterator[Receiver]:
    """Serve until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = Seen(self.command, self.path, self.headers.items(), body)
            status, reply = receiver.take(request)
            self.send_response(status)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, format: str, *args: object) -> None:
            """Not on the tests' own output."""

    with Server(("127.0.0.1", 0), Handler) as server:
        base = f"http://127.0.0.1:{server.server_address[1]}"
        receiver = Receiver(base + path, answer)
        if isinstance(answer, Inbox):
            answer.base = base
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
