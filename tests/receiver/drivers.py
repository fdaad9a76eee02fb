"""Servers without a network: they play the protocol, and hold the application to it."""

from __future__ import annotations

import asyncio
import io
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol
from wsgiref.validate import validator

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    import duly

# More requests at once than any pool has connections.
CROWD = 200
HOST = "shop.example"
REMOTE = "203.0.113.9"


@dataclass(frozen=True, slots=True)
class Request:
    """What a client sends; in several chunks where it sends it slowly."""

    path: str
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    method: str = "POST"
    query: str = ""
    chunks: int = 1
    length: bool = True  # whether it says how long its body is


@dataclass(frozen=True, slots=True)
class Answer:
    """What the client got."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as it is meant to be read."""
        return json.loads(self.body)

    @property
    def said(self) -> str:
        """What became of the delivery, in one word."""
        told = self.json
        word: str = told["status"] if "status" in told else told["error"]
        return word


class Server(Protocol):
    """Something that serves an application."""

    async def ask(self, request: Request) -> Answer:
        """Send a request and wait for its answer."""

    async def close(self) -> None:
        """End the server and close the application."""


class Asgi:
    """Serves on the running event loop."""

    def __init__(self, app: duly.Duly) -> None:
        self._app = app

    async def ask(self, request: Request) -> Answer:
        return await Exchange(request).play(self._app)

    async def close(self) -> None:
        await self._app.aclose()


class Exchange:
    """One request and its answer, message by message."""

    def __init__(self, request: Request, *, hang_up: bool = False) -> None:
        self._request = request
        size = max(1, -(-len(request.body) // request.chunks))
        starts = range(0, max(1, len(request.body)), size)
        self._left = [request.body[start : start + size] for start in starts]
        self._hang_up = hang_up
        self.sent: list[MutableMapping[str, Any]] = []

    async def play(self, app: duly.Duly) -> Answer:
        await app(self.scope(), self.receive, self.send)
        start, body = self.sent
        assert (start["type"], body["type"]) == ("http.response.start", "http.response.body")
        assert not body.get("more_body", False)
        headers = {name.decode(): value.decode() for name, value in start["headers"]}
        return Answer(start["status"], headers, body["body"])

    def scope(self) -> dict[str, Any]:
        request = self._request
        named = {"host": HOST} | {name.lower(): value for name, value in request.headers.items()}
        if request.length:
            named.setdefault("content-length", str(len(request.body)))
        return {
            "type": "http",
            "method": request.method,
            "path": request.path,
            "raw_path": request.path.encode(),
            "query_string": request.query.encode(),
            "scheme": "https",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in named.items()],
            "client": (REMOTE, 4711),
        }

    async def receive(self) -> dict[str, Any]:
        if self._hang_up and len(self._left) == 1:
            return {"type": "http.disconnect"}
        assert self._left, "it asked for more than there is"
        chunk = self._left.pop(0)
        return {"type": "http.request", "body": chunk, "more_body": bool(self._left)}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(message)


class Wsgi:
    """Serves each request on a thread, watched by the standard library's own referee."""

    def __init__(self, app: duly.Duly) -> None:
        self._app = app
        self._checked = validator(app.wsgi)
        self._threads = ThreadPoolExecutor(CROWD)

    async def ask(self, request: Request) -> Answer:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._served, request)

    def _served(self, request: Request) -> Answer:
        started: list[tuple[str, list[tuple[str, str]]]] = []

        def start_response(status: str, headers: list[tuple[str, str]], *_: Any) -> Any:
            started.append((status, headers))
            return lambda _: None

        environ = environ_of(request)
        # The referee does not let a server hand over a length that is none.
        sound = environ.get("CONTENT_LENGTH", "0").isdecimal()
        answer: Any = (self._checked if sound else self._app.wsgi)(environ, start_response)
        body = b"".join(answer)
        if sound:
            answer.close()
        [(status, headers)] = started
        return Answer(int(status.split()[0]), {name.lower(): text for name, text in headers}, body)

    async def close(self) -> None:
        await asyncio.to_thread(self._app.close)
        self._threads.shutdown()


def environ_of(request: Request) -> dict[str, Any]:
    """A request as WSGI servers hand it over."""
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": request.path,
        "QUERY_STRING": request.query,
        "SERVER_NAME": HOST,
        "SERVER_PORT": "443",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": REMOTE,
        "HTTP_HOST": HOST,
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "https",
        "wsgi.input": io.BytesIO(request.body),
        "wsgi.input_terminated": True,
        "wsgi.errors": io.StringIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    if request.length:
        environ["CONTENT_LENGTH"] = str(len(request.body))
    for name, value in request.headers.items():
        key = name.upper().replace("-", "_")
        environ[key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"] = value
    return environ


ServerName = Literal["asgi", "wsgi"]
SERVERS: dict[ServerName, type[Asgi] | type[Wsgi]] = {"asgi": Asgi, "wsgi": Wsgi}
