"""Receivers that mean harm, or cannot do better: raw sockets, and bytes as no library writes them.

A villain is a function of the connection, called once a request has arrived in full. What it does
ends when the other side hangs up, or when the block of its test ends.
"""

from __future__ import annotations

import socket
import struct
import threading
import zlib
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator

    Villain = Callable[["Connection"], None]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
PAUSE = 0.05
# Small buffers: a villain must feel that nobody reads, and its bytes must not hide in the kernel.
BUFFER = 32 * 1024


@dataclass
class Request:
    """One request as it arrived."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def method(self) -> str:
        return self.line.split(" ")[0]


@dataclass
class Connection:
    """One connection to a villain, with the request that has just arrived on it."""

    socket: socket.socket
    over: threading.Event
    requests: list[Request] = field(default_factory=list)
    written: int = 0
    ended: bool = False

    def write(self, data: bytes) -> None:
        self.socket.sendall(data)
        self.written += len(data)

    def write_on_and_on(self, data: bytes) -> None:
        """Write as fast as it is read."""
        while not self.over.is_set():
            self.write(data)

    def trickle(self, data: bytes) -> None:
        """Write one byte now and then."""
        for start in range(len(data)):
            self.write(data[start : start + 1])
            if self.over.wait(PAUSE):
                return

    def wait(self) -> None:
        """Say nothing until the other side hangs up."""
        while not self.over.is_set() and self.socket.recv(65536):
            continue

    def reset(self) -> None:
        """End it as a process does that was killed: no goodbye."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


@dataclass
class Den:
    """Where a villain lives."""

    url: str
    port: int
    requests: list[Request] = field(default_factory=list)
    connections: list[Connection] = field(default_factory=list)
    # The name that TLS was asked for, of each connection that got so far.
    indicated: list[str | None] = field(default_factory=list)

    @property
    def origin(self) -> str:
        return self.url.rsplit("/", 1)[0]

    @property
    def open(self) -> int:
        """How many connections nobody has ended."""
        return sum(not one.ended for one in self.connections)

    @property
    def written(self) -> int:
        """How many bytes the villain got rid of."""
        return sum(one.written for one in self.connections)


def read_request(stream: socket.socket) -> Request | None:
    """The next request in full; None where the connection has ended."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = stream.recv(65536)
        if not part:
            return None
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    line, *lines = head.decode("latin-1").split("\r\n")
    headers = {
        name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)
    }
    length = int(headers.get("content-length", "0"))
    while len(body) < length:
        part = stream.recv(65536)
        if not part:
            return None
        body += part
    return Request(line, headers, body)


class Server:
    """Listens, and gives each connection to a thread of its own."""

    def __init__(
        self, villain: Villain, den: Den, tls: ssl.SSLContext | None, *, deaf: bool
    ) -> None:
        self._villain, self._den, self._tls, self._deaf = villain, den, tls, deaf
        self._over = threading.Event()
        self._opened: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def accept(self, listening: socket.socket) -> None:
        """Take what comes until nobody listens any more."""
        with suppress(OSError):
            while True:
                stream, _ = listening.accept()
                self._opened.append(stream)
                thread = threading.Thread(target=self._serve, args=(stream,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, stream: socket.socket) -> None:
        with suppress(OSError), stream:
            spoken = (
                stream if self._tls is None else self._tls.wrap_socket(stream, server_side=True)
            )
            connection = Connection(spoken, self._over)
            self._den.connections.append(connection)
            try:
                self._converse(connection)
            finally:
                connection.ended = True
                spoken.close()

    def _converse(self, connection: Connection) -> None:
        """Let the villain answer one request after another, or begin before any."""
        while not self._over.is_set():
            if not self._deaf:
                request = read_request(connection.socket)
                if request is None:
                    return
                self._den.requests.append(request)
                connection.requests.append(request)
            self._villain(connection)
            if self._deaf:
                return

    def end(self) -> None:
        self._over.set()
        for stream in self._opened:
            with suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)


@contextmanager
def living(
    villain: Villain,
    *,
    tls: ssl.SSLContext | None = None,
    host: str = "127.0.0.1",
    deaf: bool = False,
) -> Iterator[Den]:
    """Serve until the block ends. A deaf villain gets the connection before any request."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
    listening.bind((host, 0))
    listening.listen(100)
    port = listening.getsockname()[1]
    den = Den(f"{'https' if tls else 'http'}://{host}:{port}/hook", port)
    if tls is not None:
        tls.sni_callback = lambda _, name, __: den.indicated.append(name)
    server = Server(villain, den, tls, deaf=deaf)
    accepting = threading.Thread(target=server.accept, args=(listening,), daemon=True)
    accepting.start()
    try:
        yield den
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        accepting.join()
        server.end()


def saying(data: bytes) -> Villain:
    """Answer every request with these bytes."""

    def say(connection: Connection) -> None:
        connection.write(data)

    return say


def redirecting(where: str, status: int = 302) -> Villain:
    return saying(
        f"HTTP/1.1 {status} Elsewhere\r\nLocation: {where}\r\nContent-Length: 0\r\n\r\n".encode()
    )


def answers_every_request(connection: Connection) -> None:
    connection.write(OK)


def never_answers(connection: Connection) -> None:
    connection.wait()


def closes_at_once(connection: Connection) -> None:
    connection.socket.close()


def resets_at_once(connection: Connection) -> None:
    connection.reset()


def trickles_its_headers(connection: Connection) -> None:
    connection.trickle(b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 10_000)


def trickles_its_body(connection: Connection) -> None:
    connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n")
    connection.trickle(b"a" * 10_000)


def pauses_inside_its_headers(connection: Connection) -> None:
    connection.write(b"HTTP/1.1 200 OK\r\nContent-Le")
    connection.wait()


def resets_inside_its_headers(connection: Connection) -> None:
    connection.write(b"HTTP/1.1 200 OK\r\nContent-Le")
    connection.reset()


def resets_inside_its_body(connection: Connection) -> None:
    connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    connection.reset()


def closes_inside_its_body(connection: Connection) -> None:
    connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    connection.socket.close()


def never_ends_its_body(connection: Connection) -> None:
    connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
    connection.write_on_and_on(b"a" * 16_384)


def never_ends_its_chunks(connection: Connection) -> None:
    connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    connection.write_on_and_on(b"4000\r\n" + b"a" * 0x4000 + b"\r\n")


def chops_its_body(connection: Connection) -> None:
    connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    connection.write_on_and_on(b"1\r\na\r\n" * 2000)


def never_ends_one_chunk_size(connection: Connection) -> None:
    connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;")
    connection.write_on_and_on(b"a" * 16_384)


def never_ends_its_headers(connection: Connection) -> None:
    connection.write(b"HTTP/1.1 200 OK\r\n")
    connection.write_on_and_on(b"X-Long: " + b"a" * 1000 + b"\r\n")


def never_ends_one_header(connection: Connection) -> None:
    connection.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    connection.write_on_and_on(b"a" * 16_384)


def says_continue_for_ever(connection: Connection) -> None:
    connection.write_on_and_on(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


def says_continue_first(connection: Connection) -> None:
    connection.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" + OK)


def switches_protocols(connection: Connection) -> None:
    connection.write(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
    )
    connection.wait()


def bomb() -> bytes:
    """A few kilobytes that unfold into twenty megabytes."""
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    return b"".join(packer.compress(bytes(1_000_000)) for _ in range(20)) + packer.flush()


BOMB = bomb()


def packs_a_bomb(connection: Connection) -> None:
    length = f"Content-Length: {len(BOMB)}\r\n\r\n".encode()
    connection.write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n" + length + BOMB)


def packs_its_transfer(connection: Connection) -> None:
    connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n")
    connection.wait()


def talks_garbage(connection: Connection) -> None:
    connection.write(bytes(range(256)) * 8 + b"\r\n\r\n")
    connection.wait()


def talks_another_protocol(connection: Connection) -> None:
    connection.write(b"-ERR unknown command 'POST'\r\n")
    connection.wait()


def answers_twice(connection: Connection) -> None:
    connection.write(OK + OK.replace(b"ok", b"no"))


def claims_a_longer_body(connection: Connection) -> None:
    connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort")
    connection.wait()


def claims_a_shorter_body(connection: Connection) -> None:
    connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more than that")


def claims_two_lengths(connection: Connection) -> None:
    connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!")


def claims_a_negative_length(connection: Connection) -> None:
    connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nok")


def breaks_its_chunks(connection: Connection) -> None:
    connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n")
    connection.wait()


def answers_with_no_status(connection: Connection) -> None:
    connection.write(b"HTTP/1.1 000 Nothing\r\nContent-Length: 0\r\n\r\n")


def answers_with_a_strange_status(connection: Connection) -> None:
    connection.write(b"HTTP/1.1 999 Strange\r\nContent-Length: 0\r\n\r\n")


def redirects_with_a_novel(connection: Connection) -> None:
    redirecting("https://example.com/" + "a" * 60_000)(connection)


def reads_slowly(connection: Connection) -> None:
    """For a deaf den: takes a little now and then, and never answers."""
    while not connection.over.wait(PAUSE) and connection.socket.recv(60_000):
        continue
