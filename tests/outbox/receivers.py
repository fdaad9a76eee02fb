"""A receiver on a real port that remembers every request and answers as it was told.

Each answer leaves in one write: an answer in two would meet a delayed acknowledgement, and a
test would wait for the kernel rather than for duly.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

# Seconds that a test may wait for what must come.
PATIENCE = 60.0
OK = 204
# With this a close sends RST rather than FIN: the other side sees a connection reset.
LINGER = struct.pack("ii", 1, 0)


class Received(NamedTuple):
    """One request as it arrived; the names of its headers are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    # When its last byte was read, by a clock that never jumps.
    at: float


@dataclass
class Answer:
    """What a path is told, and how many times more; None for ever."""

    reply: bytes | None
    delay: float = 0.0
    times: int | None = None
    # Nothing is answered before this is set.
    released: threading.Event | None = None


def reply_of(status: int, headers: Mapping[str, str], body: bytes) -> bytes:
    """An answer as it goes over the wire."""
    lines = [f"HTTP/1.1 {status} Told"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if status != OK and "content-length" not in {name.lower() for name in headers}:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass
class Receiver:
    """A server on 127.0.0.1: ``with Receiver() as there: app.send(there.url + "/path")``.

    A path that was told nothing answers 204. ``requests`` holds whatever has arrived in full.
    """

    requests: list[Received] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Condition()
        self._answers: dict[str, deque[Answer]] = {}
        self._open: set[socket.socket] = set()
        self._running: dict[str, int] = {}
        self._most: dict[str, int] = {}
        self._ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        # How many connections were opened to it.
        self.connections = 0
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="receiver", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        # A thread in accept() does not notice that its socket was closed; this wakes it.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for connection in self._open:
                connection.close()
            self._lock.notify_all()

    def answer(
        self,
        path: str,
        status: int = OK,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        delay: float = 0.0,
        times: int | None = None,
    ) -> None:
        """Tell what ``path`` answers, from now on or for so many ``times``; then what came before.

        Of several that have a number of times, the one that was told first goes first.
        """
        self._tell(path, Answer(reply_of(status, headers or {}, body), delay, times))

    def reset(self, path: str, *, times: int | None = None) -> None:
        """Let ``path`` cut the connection after it has read the request."""
        self._tell(path, Answer(None, times=times))

    def hold(self, path: str, status: int = OK, *, times: int | None = None) -> threading.Event:
        """Let ``path`` answer only once what this returns is set."""
        released = threading.Event()
        self._tell(path, Answer(reply_of(status, {}, b""), times=times, released=released))
        return released

    def _tell(self, path: str, answer: Answer) -> None:
        with self._lock:
            told = self._answers.setdefault(path, deque())
            if answer.times is None:
                told.clear()
                told.append(answer)
                return
            lasting = told.pop() if told and told[-1].times is None else None
            told.append(answer)
            if lasting is not None:
                told.append(lasting)

    def at(self, path: str) -> list[Received]:
        """What has arrived at one path."""
        with self._lock:
            return [one for one in self.requests if one.path == path]

    def most_at_once(self, path: str | None = None) -> int:
        """How many requests were unanswered at the same time, at one path or at any."""
        with self._lock:
            return self._most.get(path or "", 0)

    def wait_for(self, count: int, path: str | None = None) -> None:
        """Wait until so many requests have arrived."""
        self._wait(lambda: len([1 for one in self.requests if path in (None, one.path)]) >= count)

    def _wait(self, ready: Callable[[], bool]) -> None:
        with self._lock:
            if not self._lock.wait_for(ready, PATIENCE):
                raise AssertionError(f"only {len(self.requests)} requests have arrived")

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._open.add(connection)
                self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with connection, connection.makefile("rb") as stream:
                while (received := read_request(stream)) is not None:
                    if not self._reply(connection, received):
                        return
        except (OSError, ValueError):  # the other side went away, or the receiver has ended
            return
        finally:
            with self._lock:
                self._open.discard(connection)

    def _reply(self, connection: socket.socket, received: Received) -> bool:
        """Answer one request; whether another may follow."""
        answer = self._begin(received)
        try:
            if answer.delay:
                self._ended.wait(answer.delay)
            if answer.released is not None:
                answer.released.wait(PATIENCE)
        finally:
            self._finish(received.path)
        if answer.reply is None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)
            # Closed although the stream still refers to it, and so at once.
            connection.shutdown(socket.SHUT_RD)
            return False
        connection.sendall(answer.reply)
        return received.headers.get("connection", "").lower() != "close"

    def _begin(self, received: Received) -> Answer:
        with self._lock:
            self.requests.append(received)
            for name in (received.path, ""):
                self._running[name] = self._running.get(name, 0) + 1
                self._most[name] = max(self._most.get(name, 0), self._running[name])
            self._lock.notify_all()
            return self._next(received.path)

    def _next(self, path: str) -> Answer:
        told = self._answers.get(path)
        if not told:
            return Answer(reply_of(OK, {}, b""))
        answer = told[0]
        if answer.times is not None:
            answer.times -= 1
            if answer.times <= 0:
                told.popleft()
        return answer

    def _finish(self, path: str) -> None:
        """Before the answer is written: what follows it must not count as at the same time."""
        with self._lock:
            for name in (path, ""):
                self._running[name] -= 1


def read_request(stream: BinaryIO) -> Received | None:
    """The next request of a connection; None at its end."""
    line = stream.readline()
    if not line.strip():
        return None
    method, path, _ = line.decode("latin-1").split(" ", 2)
    headers: dict[str, str] = {}
    while (line := stream.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    length = int(headers.get("content-length", "0"))
    body = stream.read(length)
    if not line or len(body) < length:  # the sender is gone, and what it sent is not whole
        return None
    return Received(method, path, headers, body, time.monotonic())
