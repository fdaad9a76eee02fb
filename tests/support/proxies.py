"""A wire between a client and PostgreSQL that can be cut at the one moment nobody can foresee.

The proxy knows the framing of the protocol, and so where a reply ends. A transaction is over when
the server says that it is ready again; a reply that is withheld is withheld from its first byte to
that point, so the server has certainly committed what the client never hears of.
"""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import urlsplit

from tests.support.servers.databases import moved

READY, COMPLETE, ERROR, AUTHENTICATION = b"Z", b"C", b"E", b"R"
# What a server says of a statement that is only prepared. asyncpg asks for it with a Flush and
# waits for it before it goes on, so it cannot be kept back until the server is ready again.
PREPARED = (b"1", b"t", b"T", b"n")


class Cut(Enum):
    """What happens to a request that was waited for."""

    BEFORE = "the request never reaches the server"
    REPLY = "the server's reply never reaches the client"
    HOLE = "the reply never comes, and the connection looks alive"


@dataclass
class Trap:
    """Waits for a request or reply that contains ``text``; springs ``times`` times."""

    cut: Cut
    text: bytes
    times: int = 1
    sprung: int = 0

    def springs(self, passing: bytes) -> bool:
        """Whether this is what it waits for."""
        if self.sprung >= self.times or self.text not in passing:
            return False
        self.sprung += 1
        return True


@dataclass
class Proxy:
    """The address of the wire, the trap on it, and what went over it."""

    url: str
    trap: Trap | None = None
    errors: list[str] = field(default_factory=list)
    links: list["Link"] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def set(self, cut: Cut, text: str, times: int = 1) -> Trap:
        """Wait for a text: SQL in a request, or a command tag such as COMMIT in a reply."""
        self.trap = Trap(cut, text.encode(), times)
        return self.trap

    def cut(self) -> None:
        """Hang up on everybody."""
        for link in self.links:
            link.close()

    def caught(self, passing: bytes, *cuts: Cut) -> Cut | None:
        """How what passes is to be cut, if at all."""
        with self.lock:
            trap = self.trap
            if trap is None or trap.cut not in cuts or not trap.springs(passing):
                return None
            return trap.cut


@contextmanager
def proxy(url: str) -> Iterator[Proxy]:
    """A wire to the server of ``url``; every connection over it is closed at the end."""
    parts = urlsplit(url)
    server = (parts.hostname or "", parts.port or 5432)
    listener = socket.create_server(("127.0.0.1", 0))
    # Without encryption the messages can be read; the server of the tests has none to offer.
    address = moved(url, "127.0.0.1", listener.getsockname()[1])
    wire = Proxy(f"{address}?sslmode=disable&gssencmode=disable")

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                link = Link(client, socket.create_connection(server), wire)
            except OSError:  # the server is down, and its client hears of it
                client.close()
                continue
            wire.links.append(link)

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield wire
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join()
        wire.cut()


class Link:
    """One connection of a client, and the two threads that carry it."""

    def __init__(self, client: socket.socket, server: socket.socket, wire: Proxy) -> None:
        self._client = client
        self._server = server
        self._wire = wire
        self._threads = [threading.Thread(target=each) for each in (self._requests, self._replies)]
        for thread in self._threads:
            thread.start()

    def _requests(self) -> None:
        """Carry what the client sends, until it is the request that must not arrive."""
        while sent := received(self._client):
            if self._wire.caught(sent, Cut.BEFORE):
                self._drop(self._client)
                break
            if not delivered(self._server, sent):
                break
        self._drop(self._server)

    def _replies(self) -> None:
        """Carry what the server answers, one whole answer at a time."""
        waiting, answer, kinds = b"", b"", set[bytes]()
        while sent := received(self._server):
            waiting += sent
            while (found := next_message(waiting)) is not None:
                kind, message = found
                waiting = waiting[len(message) :]
                answer += message
                kinds.add(kind)
                if kind == ERROR:
                    self._wire.errors.append(sqlstate(message))
                if kind in (READY, AUTHENTICATION):
                    if not self._passed_on(answer):
                        return
                    answer = b""
                    kinds.clear()
            if kinds and kinds <= set(PREPARED) and delivered(self._client, answer):
                answer = b""
                kinds.clear()
        delivered(self._client, answer + waiting)
        self._drop(self._client)

    def _passed_on(self, answer: bytes) -> bool:
        """Pass a whole answer on, unless it is the one that must not arrive."""
        cut = self._wire.caught(tags(answer), Cut.REPLY, Cut.HOLE)
        if cut is Cut.REPLY:
            self._drop(self._client)
        return cut is None and delivered(self._client, answer)

    def _drop(self, end: socket.socket) -> None:
        """Hang up; the thread that reads from it wakes and ends."""
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the other side was quicker

    def close(self) -> None:
        """Hang up on both sides and let the threads end."""
        self._drop(self._client)
        self._drop(self._server)
        for thread in self._threads:
            thread.join()
        self._client.close()
        self._server.close()


def received(end: socket.socket) -> bytes:
    """The next bytes; none where the connection is over, however it ended."""
    try:
        return end.recv(65536)
    except OSError:
        return b""


def delivered(end: socket.socket, sent: bytes) -> bool:
    """Pass bytes on; whether anybody was there to take them."""
    try:
        end.sendall(sent)
    except OSError:
        return False
    return True


def next_message(waiting: bytes) -> tuple[bytes, bytes] | None:
    """The first whole message of the server: its kind, and all of its bytes."""
    if len(waiting) < 5:
        return None
    (size,) = struct.unpack_from("!I", waiting, 1)
    if len(waiting) < 1 + size:
        return None
    return waiting[:1], waiting[: 1 + size]


def tags(answer: bytes) -> bytes:
    """The command tags of an answer, such as ``INSERT 0 1``, one to a line."""
    found = []
    while (first := next_message(answer)) is not None:
        kind, message = first
        answer = answer[len(message) :]
        if kind == COMPLETE:
            found.append(message[5:-1])
    return b"\n".join(found)


def sqlstate(message: bytes) -> str:
    """The SQLSTATE of an error message."""
    fields = message[5:].split(b"\0")
    return next(each[1:].decode() for each in fields if each[:1] == b"C")
