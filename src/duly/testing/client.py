"""One request to an application in this process, as its server would hand it over; no socket."""

from __future__ import annotations

import inspect
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from duly.core.errors import UsageError
from duly.core.validation import kind
from duly.testing.answers import Answer

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from duly.webhooks.sign import Signed

# From the networks that are reserved for documentation.
CLIENT = ("192.0.2.1", 50000)


def is_asgi(application: object) -> bool:
    """Whether an application is awaited, as ASGI has it; WSGI calls it with an environment."""
    if not callable(application):
        raise UsageError(f"site must be an ASGI or WSGI application, not {kind(application)}")
    call = getattr(type(application), "__call__", None)  # noqa: B004  # what it is, not whether
    return inspect.iscoroutinefunction(application) or inspect.iscoroutinefunction(call)


def headers_of(sent: Signed) -> dict[str, str]:
    """Every header of a request, by lower-case name."""
    parts = urlsplit(sent.url or "")
    own = {"host": parts.netloc, "content-length": str(len(sent.body)), "user-agent": "duly"}
    return {**own, **{name.lower(): value for name, value in sent.headers.items()}}


def call_wsgi(application: Any, sent: Signed) -> Answer:
    """What a WSGI application answers."""
    head: list[Any] = []

    def start_response(status: str, headers: list[tuple[str, str]], *_: object) -> Any:
        number = status.partition(" ")[0]
        head[:] = [int(number), {name.lower(): value for name, value in headers}]
        return lambda _: None

    parts = urlsplit(sent.url or "")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": sent.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote(parts.path, "latin-1"),
        "QUERY_STRING": parts.query,
        "SERVER_NAME": parts.hostname or "localhost",
        "SERVER_PORT": str(parts.port or 443),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": CLIENT[0],
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": parts.scheme,
        "wsgi.input": BytesIO(sent.body),
        "wsgi.errors": BytesIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in headers_of(sent).items():
        bare = name.upper().replace("-", "_")
        plain = bare in ("CONTENT_TYPE", "CONTENT_LENGTH")
        environ[bare if plain else f"HTTP_{bare}"] = value
    chunks = application(environ, start_response)
    try:
        body = b"".join(chunks)
    finally:
        getattr(chunks, "close", lambda: None)()
    return Answer(head[0], head[1], body)


async def call_asgi(application: Any, sent: Signed) -> Answer:
    """What an ASGI application answers."""
    parts = urlsplit(sent.url or "")
    left = [sent.body]
    answer: dict[str, Any] = {"body": b""}

    async def receive() -> dict[str, Any]:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            answer["status"] = message["status"]
            answer["headers"] = {
                bytes(name).decode("latin-1").lower(): bytes(value).decode("latin-1")
                for name, value in message.get("headers", ())
            }
        elif message["type"] == "http.response.body":
            answer["body"] += message.get("body", b"")

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": sent.method,
        "scheme": parts.scheme,
        "path": unquote(parts.path),
        "raw_path": parts.path.encode("ascii"),
        "query_string": parts.query.encode("ascii"),
        "root_path": "",
        "headers": [
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in headers_of(sent).items()
        ],
        "client": CLIENT,
        "server": (parts.hostname or "localhost", parts.port or 443),
        "state": {},
    }
    await application(scope, receive, send)
    return Answer(answer["status"], answer["headers"], answer["body"])
