"""HTTP by hand: bytes that no library would send, and answers read without trust."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duly
from tests.server.hostile.application import PROVIDER, SECRET

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Iterator

Address = tuple[str, int]
Pairs = list[tuple[str, str]]
# Longer than any deadline of the server: who waits this long waits in vain.
PATIENCE = 20.0
# Without a time of its own: one that is fixed would be too old some day.
BODY = b'{"type":"invoice.paid","data":{"id":"in_1"}}'


@dataclass(frozen=True)
class Answer:
    """One answer of the server, complete."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def said(self) -> str:
        """The word that duly answers with; empty where the server answered by itself."""
        try:
            told = self.json
        except ValueError:
            return ""
        return str(told.get("status") or told.get("error"))

    @property
    def closes(self) -> bool:
        """Whether the connection ends with it."""
        return "close" in self.headers.get("connection", "")


def request(
    method: str, target: str, headers: Iterable[tuple[str, str]] = (), body: bytes = b""
) -> bytes:
    """A request as its parts say, sound or not."""
    lines = [f"{method} {target} HTTP/1.1", "host: duly.test"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def signed(event_id: str, body: bytes = BODY) -> Pairs:
    """The headers of a genuine delivery."""
    return list(duly.sign(PROVIDER, body, SECRET, id=event_id).headers.items())


def delivery(
    event_id: str, body: bytes = BODY, *, path: str = "/hooks", more: Iterable[tuple[str, str]] = ()
) -> bytes:
    """A genuine delivery, complete."""
    length = ("content-length", str(len(body)))
    return request("POST", path, [*signed(event_id, body), length, *more], body)


def ask(address: Address, method: str, target: str) -> Answer:
    """One request without a body, on a connection of its own."""
    [answer] = exchange(address, request(method, target, [("connection", "close")]))
    return answer


def exchange(address: Address, sent: bytes, *, half_close: bool = False) -> list[Answer]:
    """Send bytes on a new connection, and read answers until the server ends it or falls silent."""
    with socket.create_connection(address, PATIENCE) as connection:
        try:
            connection.sendall(sent)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
        except (ConnectionResetError, BrokenPipeError):
            pass  # the server has heard enough; what it answered is still to be read
        return list(answers(connection))


def answers(connection: socket.socket) -> Iterator[Answer]:
    """Every answer until one that ends the connection."""
    buffered = b""
    while True:
        try:
            while (found := split(buffered)) is None:
                received = connection.recv(65536)
                if not received:
                    assert not buffered, f"half an answer: {buffered[:200]!r}"
                    return
                buffered += received
        except ConnectionResetError:
            return
        answer, buffered = found
        if answer.status >= 200:
            yield answer
            if answer.closes:
                return


def split(buffered: bytes) -> tuple[Answer, bytes] | None:
    """The first answer and what follows it; None while it is not complete."""
    head, end, rest = buffered.partition(b"\r\n\r\n")
    if not end:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)
    }
    size = int(headers.get("content-length", "0"))
    if len(rest) < size:
        return None
    version, status, *_ = first.split(" ")
    assert version in ("HTTP/1.0", "HTTP/1.1"), first
    return Answer(int(status), headers, rest[:size]), rest[size:]


async def awaited_answer(reader: asyncio.StreamReader) -> Answer | None:
    """The next answer; None where the server closed the connection without one."""
    buffered = b""
    try:
        while True:
            found = split(buffered)
            if found is not None and found[0].status >= 200:
                return found[0]
            if found is not None:
                buffered = found[1]
                continue
            received = await reader.read(65536)
            if not received:
                return None
            buffered += received
    except ConnectionError:
        return None
