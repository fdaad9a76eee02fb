"""The receiver as an ASGI application: raw bytes in, counted as they come, one answer out."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from duly.receiver.lazy_timeout import LazyTimeout
from duly.receiver.pipeline import allows, method_not_allowed
from duly.receiver.request import (
    Request,
    declared_length,
    refuse_encoding,
    refuse_large_headers,
    refuse_lost_body,
    too_large,
)
from duly.receiver.responses import Fault, Reply, RequestRefused, refusal_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from duly.inbox.route import Route
    from duly.receiver.router import Router

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

logger = logging.getLogger("duly")
access = logging.getLogger("duly.access")


class RequestAborted(Exception):  # nothing went wrong here: nobody is listening any more
    """The client hung up before its request was read."""


async def serve(site: Router, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one connection of any kind."""
    if scope["type"] == "http":
        await answer_request(site, scope, receive, send)
    elif scope["type"] == "lifespan":
        await run_lifespan(site, receive, send)
    elif scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1000})


async def run_lifespan(site: Router, receive: Receive, send: Send) -> None:
    """Open at the start, so that a wrong database is told at once; drain at the end."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            try:
                await site.start()
            except Exception as problem:
                await send({"type": "lifespan.startup.failed", "message": str(problem)})
                return
            await send({"type": "lifespan.startup.complete"})
        else:
            await site.stop()
            await send({"type": "lifespan.shutdown.complete"})
            return


async def answer_request(site: Router, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request."""
    begun = time.perf_counter()
    try:
        reply = await dispatch_request(site, scope, receive)
    except RequestAborted:
        return
    except RequestRefused as problem:
        reply = problem.reply
    if access.isEnabledFor(logging.INFO):
        log_request(scope["method"], scope["path"], reply, begun)
    try:
        await send(
            {
                "type": "http.response.start",
                "status": reply.status,
                "headers": [(name.encode(), value.encode()) for name, value in reply.pairs()],
            }
        )
        await send(
            {
                "type": "http.response.body",
                "body": b"" if scope["method"] == "HEAD" else reply.body,
            }
        )
    except (OSError, RuntimeError) as problem:  # the connection has gone: nobody to tell
        logger.debug("an answer could not be sent: %s", problem)


def log_request(method: str, path: str, reply: Reply, begun: float) -> None:
    """One line for each request: what was answered and about which event, never a body."""
    access.info(
        "%s %s %d %s %s %.1fms",
        method,
        path.encode("unicode_escape").decode("ascii")[:200],
        reply.status,
        reply.said or "-",
        (reply.event or "-").encode("unicode_escape").decode("ascii")[:120],
        (time.perf_counter() - begun) * 1000,
    )


async def dispatch_request(site: Router, scope: Scope, receive: Receive) -> Reply:
    """The answer to one request, found by its path."""
    path = path_of(scope)
    route = site.find_route(path)
    if route is None:
        own = await site.answer_own_endpoint(path, scope["method"])
        if own is not None:
            return own
        raise refusal_error(Fault.UNKNOWN_SOURCE, "nothing is received here")
    return await receive_delivery(site, route, scope, receive)


async def receive_delivery(site: Router, route: Route, scope: Scope, receive: Receive) -> Reply:
    """The answer of one source."""
    if not allows(route, scope["method"]):
        return method_not_allowed(route)
    request = request_of(scope)
    refuse_encoding(request.encoding, decompress=route.decompress)
    with site.room() as room:
        try:
            reading = read_body(receive, route.max_body, request.declared, room.grow)
            body = await LazyTimeout(reading, site.body_deadline)
        except TimeoutError:
            raise refusal_error(Fault.TOO_SLOW, "the body did not arrive in time") from None
        refuse_lost_body(request, body, route.name)
        return await site.receiver.receive(route, request, body)


async def read_body(
    receive: Receive, limit: int, declared: int | None, grow: Callable[[int], None]
) -> bytes:
    """The whole body, counted as it comes: a Content-Length is believed only if it is too much."""
    if declared is not None and declared > limit:
        raise too_large(limit)
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestAborted
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise too_large(limit)
        grow(len(chunk))
        if not message.get("more_body", False):
            if chunks:
                chunks.append(chunk)
                return b"".join(chunks)
            return bytes(chunk)
        chunks.append(chunk)


def path_of(scope: Scope) -> str:
    """The path below the point where the application is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    # Some servers leave the mount point out of the path: it is cut off only where it stands whole.
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def request_of(scope: Scope) -> Request:
    """What the gate needs; repeated headers stay repeated, for the gate to judge."""
    pairs = scope["headers"]
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in pairs}
    refuse_large_headers([len(name) + len(value) for name, value in pairs])
    client = scope.get("client")
    return Request(
        scope["method"],
        headers if len(headers) == len(pairs) else list(pairs),
        url_of(scope, headers.get("host", "")),
        client[0] if client else None,
        encoding_of(pairs, headers),
        declared_length(headers.get("content-length")),
        "transfer-encoding" in headers,
        "upgrade" in headers,
    )


def encoding_of(pairs: list[tuple[bytes, bytes]], headers: dict[str, str]) -> str | None:
    """The content encoding; several of them are one that nobody knows."""
    if "content-encoding" not in headers:
        return None
    found = [value for name, value in pairs if name == b"content-encoding"]
    return b",".join(found).decode("latin-1").strip().lower() or None


def url_of(scope: Scope, host: str) -> str:
    """The URL as it was asked for here; behind a proxy the source's own ``url=`` is better."""
    raw = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogateescape")
    path = raw.partition(b"?")[0].decode("latin-1")
    query = scope.get("query_string", b"").decode("latin-1")
    return f"{scope.get('scheme', 'http')}://{host}{path}{'?' if query else ''}{query}"
