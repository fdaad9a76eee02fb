"""A WSGI request made by hand, and the answer to it, in this process and by the letter."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any
from wsgiref.validate import validator

from tests.server.hostile.wire import BODY, Answer, signed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from duly import Duly

Environ = dict[str, Any]


class Counted(io.RawIOBase):
    """A body that knows how much of it was read; ``endless`` goes on with spaces."""

    def __init__(
        self, body: bytes, *, endless: bool = False, wait: Callable[[], None] | None = None
    ):
        self._rest = body
        self._endless = endless
        self._wait = wait
        self.taken = 0

    def read(self, size: int = -1) -> bytes:
        """At most so many bytes."""
        if self._wait is not None:
            self._wait()
        if self._endless and not self._rest:
            found = b" " * size
        else:
            found, self._rest = self._rest[:size], self._rest[size:]
        self.taken += len(found)
        return found


def environ_of(headers: Iterable[tuple[str, str]], body: io.RawIOBase | bytes) -> Environ:
    """The environment of a POST to /hooks."""
    environ: Environ = {
        "REQUEST_METHOD": "POST",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/hooks",
        "QUERY_STRING": "",
        "SERVER_NAME": "duly.test",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": Counted(body) if isinstance(body, bytes) else body,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in headers:
        key = name.upper().replace("-", "_")
        environ[key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"] = value
    return environ


def genuine(event_id: str, body: bytes = BODY) -> Environ:
    """A delivery as it should be."""
    return environ_of([*signed(event_id, body), ("content-length", str(len(body)))], body)


def answered(app: Duly, environ: Environ, *, checked: bool = True) -> Answer:
    """The answer of the application, held to PEP 3333 by the standard library's own checker."""
    started: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], info: Any = None) -> Any:
        started.append((status, headers))
        return lambda _: None

    application: Any = validator(app.wsgi) if checked else app.wsgi
    parts = application(environ, start_response)
    body = b"".join(parts)
    if hasattr(parts, "close"):
        parts.close()
    [(status, headers)] = started
    return Answer(int(status.split(" ")[0]), dict(headers), body)
