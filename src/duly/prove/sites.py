"""Delivers through the user's own site, so that what a route does before duly is proved, too."""

from __future__ import annotations

import asyncio
import inspect
import io
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from duly.webhooks.sign import Signed

HOST = "prove.example"


def is_asgi(site: Any) -> bool:
    """Whether a site is an ASGI application, as opposed to WSGI."""
    return len(inspect.signature(site).parameters) == 3  # scope, receive, send


@asynccontextmanager
async def run_lifespan(site: Any) -> AsyncIterator[None]:
    """Start an ASGI site up and down again, where it wants that."""
    if site is None or not is_asgi(site):
        yield
        return
    told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def send(message: dict[str, Any]) -> None:
        await heard.put(message["type"])

    async def live() -> None:
        try:
            await site(
                {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, told.get, send
            )
        except Exception:  # it knows no lifespan, as many sites do
            await heard.put("lifespan.none")

    task = asyncio.create_task(live())
    await told.put({"type": "lifespan.startup"})
    begun = await heard.get()
    try:
        yield
    finally:
        if begun == "lifespan.startup.complete":
            await told.put({"type": "lifespan.shutdown"})
            await heard.get()
        task.cancel()


async def post(site: Any, path: str, sent: Signed) -> tuple[int, bytes]:
    """One request; the status and the body of the answer."""
    if is_asgi(site):
        return await post_asgi(site, path, sent)
    return await asyncio.to_thread(post_wsgi, site, path, sent)


async def post_asgi(site: Any, path: str, sent: Signed) -> tuple[int, bytes]:
    """A request as an ASGI server makes it."""
    parts = urlsplit(path)
    headers = {"host": HOST, **{name.lower(): value for name, value in sent.headers.items()}}
    headers["content-length"] = str(len(sent.body))
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": sent.method,
        "scheme": "https",
        "path": parts.path,
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
        "client": ("203.0.113.1", 1),
        "server": (HOST, 443),
        "state": {},
    }
    told = [{"type": "http.request", "body": sent.body, "more_body": False}]
    status, body = 500, b""

    async def receive() -> dict[str, Any]:
        if told:
            return told.pop()
        await asyncio.Event().wait()  # nothing more comes, and the client stays connected
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        nonlocal status, body
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            body += message.get("body", b"")

    await site(scope, receive, send)
    return status, body


def post_wsgi(site: Any, path: str, sent: Signed) -> tuple[int, bytes]:
    """A request as a WSGI server makes it."""
    parts = urlsplit(path)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": sent.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": parts.path,
        "QUERY_STRING": parts.query,
        "SERVER_NAME": HOST,
        "SERVER_PORT": "443",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": HOST,
        "REMOTE_ADDR": "203.0.113.1",
        "CONTENT_LENGTH": str(len(sent.body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "https",
        "wsgi.input": io.BytesIO(sent.body),
        "wsgi.errors": io.StringIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for name, value in sent.headers.items():
        upper = name.upper().replace("-", "_")
        environ[upper if upper == "CONTENT_TYPE" else f"HTTP_{upper}"] = value
    begun: list[str] = []

    def start_response(status: str, *_: Any) -> None:
        begun[:] = [status]

    parts_of_answer = site(environ, start_response)
    try:
        body = b"".join(parts_of_answer)
    finally:
        if hasattr(parts_of_answer, "close"):
            parts_of_answer.close()
    return int(begun[0].split(" ")[0]), body
