"""``http.client``, and with it urllib, requests and everything on top of urllib3.

A connection gets a socket that collects the request and holds the answer ready.
"""

from __future__ import annotations

import http.client
import io
import os
from collections import deque
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from http import HTTPStatus
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.prove.calls import Call, select_headers
from duly.prove.steps.watching import replace_attribute

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.prove.recording.answers import CannedAnswer
    from duly.prove.recording.recorder import Recorder


# Without a length of their body these go on until the response is asked for.
WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


class RecordedSocket:
    """Stands for the connection to the other side."""

    def __init__(self, recorder: Recorder, origin: str) -> None:
        self._recorder = recorder
        self._origin = origin
        self._sent = bytearray()
        self._answers: deque[bytes] = deque()

    def sendall(self, data: Any, *_: Any) -> None:
        """Collect a part of the request; with its last one the other side has all of it."""
        self._sent += bytes(data)
        self._take(framed=True)

    def _take(self, *, framed: bool) -> None:
        """Record the call when it is complete, whether or not its response is read."""
        request = request_of(bytes(self._sent))
        if request is None or request.has_known_length != framed or request.content is None:
            return
        self._sent.clear()
        self._answers.append(encode_answer(self._recorder.take(request.call(self._origin))))

    def makefile(self, *_: Any, **__: Any) -> io.BytesIO:
        """The answer."""
        self._take(framed=False)
        return io.BytesIO(self._answers.popleft() if self._answers else b"")

    def close(self) -> None:
        """End a body without a length, unless its response was asked for before."""
        self._take(framed=False)

    def settimeout(self, *_: Any) -> None:
        """It answers at once."""

    def setsockopt(self, *_: Any) -> None:
        """It has no options."""

    def gettimeout(self) -> None:
        """It answers at once."""

    def shutdown(self, *_: Any) -> None:
        """There is nothing to end."""

    def fileno(self) -> int:
        """Say that the other side has not closed."""
        return silent_file()


@lru_cache(maxsize=1)
def silent_file() -> int:
    """A file that there is never anything to read from."""
    return os.pipe()[0]


def encode_answer(answer: CannedAnswer) -> bytes:
    """An answer as it is sent."""
    try:
        phrase = HTTPStatus(answer.status).phrase
    except ValueError:
        phrase = ""
    lines = [f"HTTP/1.1 {answer.status} {phrase}"]
    lines += [f"{name}: {value}" for name, value in answer.headers.items()]
    lines += [f"content-length: {len(answer.body)}", "", ""]
    return "\r\n".join(lines).encode("latin-1") + answer.body


class RecordedRequest(NamedTuple):
    """What was sent of a request, from the end of its head on."""

    first: str
    headers: dict[str, str]
    body: bytes

    @property
    def has_known_length(self) -> bool:
        """Whether it is said where it ends; a request that has no body ends with its head."""
        known = {"content-length", "transfer-encoding"} & set(self.headers)
        return bool(known) or self.first.split(" ", 1)[0] not in WITH_BODY

    @property
    def content(self) -> bytes | None:
        """The body; None where the rest of it is still to come."""
        if "transfer-encoding" in self.headers:
            return decode_chunks(self.body)
        whole = len(self.body) >= int(self.headers.get("content-length", "0"))
        return self.body if whole else None

    def call(self, origin: str) -> Call:
        """The call that it is, as far as it was sent."""
        method, target, _ = self.first.split(" ", 2)
        url = target if "://" in target else origin + target
        body = (self.content or b"").decode(errors="replace")
        return Call("http", method, url, body, select_headers(self.headers.items()))


def request_of(sent: bytes) -> RecordedRequest | None:
    """A request, read as the other side would; None where its head is still to come."""
    head, end, body = sent.partition(b"\r\n\r\n")
    if not end:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    told = (line.split(": ", 1) for line in lines if ": " in line)
    return RecordedRequest(first, {name.lower(): value for name, value in told}, body)


def decode_chunks(body: bytes) -> bytes | None:
    """A body that was sent in chunks, in one piece; None before the last of them."""
    found, rest = b"", body
    while True:
        size, line, rest = rest.partition(b"\r\n")
        length = int(size.split(b";")[0] or b"0", 16) if line else 0
        if not length:
            return found if line and rest.endswith(b"\r\n") else None
        found, rest = found + rest[:length], rest[length + 2 :]


def origin_of(connection: Any) -> str:
    """Where a connection leads to; through a tunnel that is not where it goes first."""
    scheme = "https" if connection.default_port == http.client.HTTPS_PORT else "http"
    host, port = connection.host, connection.port
    if connection._tunnel_host:
        host, port = connection._tunnel_host, connection._tunnel_port
    return f"{scheme}://{host}{'' if port in (None, connection.default_port) else f':{port}'}"


@contextmanager
def record_http_client(recorder: Recorder) -> Iterator[None]:
    """Let every connection of http.client lead to the recorder."""

    def connect(self: Any) -> None:
        self.sock = RecordedSocket(recorder, origin_of(self))
        # urllib3 would warn of a certificate that was not verified.
        self.is_verified, self.proxy_is_verified = True, None

    owners: list[Any] = [http.client.HTTPConnection, http.client.HTTPSConnection]
    if find_spec("urllib3") is not None:
        connection = import_module("urllib3.connection")
        owners += [connection.HTTPConnection, connection.HTTPSConnection]
    with ExitStack() as stack:
        for owner in owners:
            stack.enter_context(replace_attribute(owner, "connect", connect))
        yield
