"""The receiver as an ASGI application: reads one request under limits and sends one answer."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from duly.receiver.lazy_timeout import with_lazy_timeout
from duly.receiver.pipeline import allows, method_not_allowed
from duly.receiver.request import (
    HEADER_BYTES,
    MOST_HEADERS,
    Request,
    declared_length,
    headers_too_large,
    refuse_encoding,
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


class RequestAborted(Exception):  # nothing went wrong here: no one is left to answer
    """The client hung up before its request was read."""


async def serve(router: Router, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one connection of any kind."""
    if scope["type"] != "http":
        await serve_other(router, scope, receive, send)
        return
    begun = time.perf_counter()
    try:
        reply = await reply_to_request(router, scope, receive)
    except RequestAborted:
        return
    except RequestRefused as problem:
        reply = problem.reply
    if access.isEnabledFor(logging.INFO):
        log_request(scope["method"], scope["path"], reply, begun)
    headers = [(name.encode(), value.encode()) for name, value in reply.pairs()]
    body = b"" if scope["method"] == "HEAD" or reply.status == 204 else reply.body
    try:
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
    except (OSError, RuntimeError) as problem:  # the connection has gone
        logger.debug("an answer could not be sent: %s", problem)


async def serve_other(router: Router, scope: Scope, receive: Receive, send: Send) -> None:
    """Run the lifespan, and close WebSockets.

    The database is opened at the start, so that a wrong address fails there.
    """
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1000})
    while scope["type"] == "lifespan":
        message = await receive()
        if message["type"] == "lifespan.startup":
            try:
                await router.start()
            except Exception as problem:
                await send({"type": "lifespan.startup.failed", "message": str(problem)})
                return
            await send({"type": "lifespan.startup.complete"})
        else:
            await router.stop()
            await send({"type": "lifespan.shutdown.complete"})
            return


def log_request(method: str, path: str, reply: Reply, begun: float) -> None:
    """One line for each request: the answer and the event it is about, never a body."""
    milliseconds = (time.perf_counter() - begun) * 1000
    access.info("%s %s %d %s %s %.1fms", method, *describe_reply(path, reply), milliseconds)


def describe_reply(path: str, reply: Reply) -> tuple[str, int, str, str]:
    """What the log says of a request: path, status, outcome and event, safe on one line."""
    return (
        escape_text(path)[:200],
        reply.status,
        reply.said or "-",
        escape_text(reply.event or "-")[:120],
    )


def escape_text(text: str) -> str:
    """Text from outside as plain ASCII on one line."""
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return text.encode("unicode_escape").decode("ascii")


async def reply_to_request(router: Router, scope: Scope, receive: Receive) -> Reply:
    """The answer to one request, found by its path."""
    path = path_below_mount(scope) if scope.get("root_path") else scope["path"]
    route = router.routes.get(path) or router.routes.get(path.rstrip("/"))
    if route is not None:
        return await receive_delivery(router, route, scope, receive)
    own = await router.answer_own_endpoint(path, scope["method"])
    if own is not None:
        return own
    raise refusal_error(Fault.UNKNOWN_SOURCE, "no source is received here")


async def receive_delivery(router: Router, route: Route, scope: Scope, receive: Receive) -> Reply:
    """The answer of one source."""
    if scope["method"] != "POST" and not allows(route, scope["method"]):
        return method_not_allowed(route)
    request = request_of(scope)
    if request.encoding is not None:
        refuse_encoding(request.encoding, decompress=route.decompress)
    try:
        body = await with_lazy_timeout(
            read_body(receive, route.max_body, request.declared, router), router.body_deadline
        )
    except TimeoutError:
        raise refusal_error(Fault.TOO_SLOW, "the body did not arrive in time") from None
    try:
        if request.upgrade or len(body) != request.declared:
            refuse_lost_body(request, body, route.name)
        return await router.receiver.receive(route, request, body, scope["headers"])
    finally:
        router.release_memory(len(body))


async def read_body(receive: Receive, limit: int, declared: int | None, router: Router) -> bytes:
    """The whole body, counted as it comes: a Content-Length is believed only if it is too much.

    The memory it takes is the caller's to release; it is released here if the body is refused.
    """
    if declared is not None and declared > limit:
        raise too_large(limit)
    chunks: list[bytes] = []
    size = taken = 0
    try:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise RequestAborted
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > limit:
                raise too_large(limit)
            taken = size
            router.take_memory(len(chunk), size)
            if not message.get("more_body", False):
                return b"".join([*chunks, chunk]) if chunks else bytes(chunk)
            chunks.append(chunk)
    except BaseException:
        router.release_memory(taken)
        raise


def path_below_mount(scope: Scope) -> str:
    """The path below the point where the application is mounted."""
    path: str = scope["path"]
    root: str = scope["root_path"].rstrip("/")
    # Some servers leave the mount point out of the path: it is cut off only where it stands whole.
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def request_of(scope: Scope) -> Request:
    """The parts of a request that verification needs; repeated headers stay repeated."""
    pairs = scope["headers"]
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in pairs}
    if len(pairs) > MOST_HEADERS or sum([len(n) + len(v) for n, v in pairs]) > HEADER_BYTES:
        raise headers_too_large()
    client = scope.get("client")
    # The URL as it was asked for here; behind a proxy the source's own ``url=`` is better.
    raw = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogateescape")
    path = raw.partition(b"?")[0].decode("latin-1")
    query = scope.get("query_string", b"").decode("latin-1")
    url = f"{scope.get('scheme', 'http')}://{headers.get('host', '')}{path}{'?' if query else ''}"
    return Request(
        scope["method"],
        headers if len(headers) == len(pairs) else list(pairs),
        url + query,
        client[0] if client else None,
        encoding_of(pairs) if "content-encoding" in headers else None,
        declared_length(headers.get("content-length")),
        "transfer-encoding" in headers,
        "upgrade" in headers,
    )


def encoding_of(pairs: list[tuple[bytes, bytes]]) -> str | None:
    """The content encoding; several of them are one that is not known."""
    found = [value for name, value in pairs if name == b"content-encoding"]
    return b",".join(found).decode("latin-1").strip().lower() or None
