"""``http.client``, and with it urllib, requests and everything on top of urllib3.

A connection gets a socket that collects the request and holds the answer ready.
"""

from __future__ import annotations

import http.client
import io
import os
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from http import HTTPStatus
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from duly.tools.proving.calls import Call, kept
from duly.tools.steps.watching import replaced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.tools.proving.recording.recorder import Recorder


class Socket:
    """Stands for the connection to the other side."""

    def __init__(self, recorder: Recorder, origin: str) -> None:
        self._recorder = recorder
        self._origin = origin
        self._sent = bytearray()

    def sendall(self, data: Any, *_: Any) -> None:
        """Collect a part of the request."""
        self._sent += bytes(data)

    def makefile(self, *_: Any, **__: Any) -> io.BytesIO:
        """The request is complete: take the call, and give its answer."""
        request, self._sent = bytes(self._sent), bytearray()
        answer = self._recorder.take(call_of(request, self._origin))
        try:
            phrase = HTTPStatus(answer.status).phrase
        except ValueError:
            phrase = ""
        lines = [f"HTTP/1.1 {answer.status} {phrase}"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        lines += [f"content-length: {len(answer.body)}", "", ""]
        return io.BytesIO("\r\n".join(lines).encode("latin-1") + answer.body)

    def close(self) -> None:
        """There is nothing to close."""

    def settimeout(self, *_: Any) -> None:
        """It answers at once."""

    def setsockopt(self, *_: Any) -> None:
        """It has no options."""

    def gettimeout(self) -> None:
        """It answers at once."""

    def shutdown(self, *_: Any) -> None:
        """There is nothing to end."""

    def fileno(self) -> int:
        """For whoever asks whether the other side has closed: it has not."""
        return quiet()


@lru_cache(maxsize=1)
def quiet() -> int:
    """A file that there is never anything to read from."""
    return os.pipe()[0]


def call_of(request: bytes, origin: str) -> Call:
    """A request, read as the other side would."""
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = dict(line.split(": ", 1) for line in lines if ": " in line)
    if any(name.lower() == "transfer-encoding" for name in headers):
        body = unchunked(body)
    url = target if "://" in target else origin + target
    return Call("http", method, url, body.decode(errors="replace"), kept(headers.items()))


def unchunked(body: bytes) -> bytes:
    """A body that was sent in chunks, in one piece."""
    found, rest = b"", body
    while True:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size.split(b";")[0] or b"0", 16)
        if not length:
            return found
        found, rest = found + rest[:length], rest[length + 2 :]


@contextmanager
def recorded(recorder: Recorder) -> Iterator[None]:
    """Let every connection of http.client lead to the recorder."""

    def connect(self: Any) -> None:
        scheme = "https" if self.default_port == http.client.HTTPS_PORT else "http"
        port = "" if self.port in (None, self.default_port) else f":{self.port}"
        self.sock = Socket(recorder, f"{scheme}://{self.host}{port}")
        # urllib3 would complain about a certificate that nobody has looked at.
        self.is_verified, self.proxy_is_verified = True, None

    owners: list[Any] = [http.client.HTTPConnection, http.client.HTTPSConnection]
    if find_spec("urllib3") is not None:
        connection = import_module("urllib3.connection")
        owners += [connection.HTTPConnection, connection.HTTPSConnection]
    with ExitStack() as stack:
        for owner in owners:
            stack.enter_context(replaced(owner, "connect", connect))
        yield
