"""The receiver as a WSGI application: the same path on the server's own threads."""

from __future__ import annotations

import logging
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from duly.receiver.asgi import access, log_request
from duly.receiver.pipeline import allows, method_not_allowed
from duly.receiver.request import (
    Request,
    declared_length,
    refuse_encoding,
    refuse_large_headers,
    refuse_lost_body,
    too_large,
)
from duly.receiver.responses import Fault, RequestRefused, refusal_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from duly.inbox.route import Route
    from duly.receiver.responses import Reply
    from duly.receiver.router import Room, Router

Environ = dict[str, Any]
CHUNK = 64 * 1024


def serve(site: Router, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer one request."""
    begun = time.perf_counter()
    method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO", "")
    try:
        reply = dispatch_request(site, environ, method, path)
    except RequestRefused as problem:
        reply = problem.reply
    if access.isEnabledFor(logging.INFO):
        log_request(method, path, reply, begun)
    # A gateway owns the connection: hop-by-hop headers are not an application's to set.
    pairs = [(name, value) for name, value in reply.pairs() if name != "connection"]
    start_response(status_line(reply.status), pairs)
    return [b"" if method == "HEAD" else reply.body]


def status_line(status: int) -> str:
    """A status with the phrase that WSGI wants after it."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} Status"


def dispatch_request(site: Router, environ: Environ, method: str, path: str) -> Reply:
    """The answer to one request, found by its path."""
    route = site.find_route(path)
    if route is None:
        own = site.answer_own_endpoint_blocking(path, method)
        if own is not None:
            return own
        raise refusal_error(Fault.UNKNOWN_SOURCE, "nothing is received here")
    return receive_delivery(site, route, environ)


def receive_delivery(
    site: Router, route: Route, environ: Environ, request: Request | None = None
) -> Reply:
    """The answer of one source; an adapter knows the request already, in its framework's words."""
    if not allows(route, environ["REQUEST_METHOD"]):
        return method_not_allowed(route)
    request = request_of(environ) if request is None else request
    refuse_encoding(request.encoding, decompress=route.decompress)
    with site.room() as room:
        refuse_unreadable_body(environ, request)
        body = read_body(
            environ, route.max_body, request.declared, BodyDeadline(site.body_deadline), room
        )
        refuse_lost_body(request, body, route.name)
        return site.receiver.receive_blocking(route, request, body)


def refuse_unreadable_body(environ: Environ, request: Request) -> None:
    """Refuse a body that was announced without a length where the server marks no end of it."""
    terminated = environ.get("wsgi.input_terminated", False)
    if request.streamed and request.declared is None and not terminated:
        raise refusal_error(
            Fault.LENGTH_REQUIRED,
            "this server does not hand on chunked bodies: send a Content-Length",
        )


class BodyDeadline:
    """How long a body may take; a single read that never returns is the server's to end."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    def check(self) -> None:
        """Refuse to go on reading."""
        if time.monotonic() > self._until:
            raise refusal_error(Fault.TOO_SLOW, "the body did not arrive in time")


def read_body(
    environ: Environ, limit: int, declared: int | None, deadline: BodyDeadline, room: Room
) -> bytes:
    """The whole body. Without a length it is read to its end where the server marks one."""
    if declared is not None and declared > limit:
        raise too_large(limit)
    if declared is None and not environ.get("wsgi.input_terminated", False):
        return b""  # as WSGI has it: without a length there is no body that could be read safely
    stream, chunks, size = environ["wsgi.input"], [], 0
    most = limit + 1 if declared is None else declared
    while size < most:
        chunk: bytes = stream.read(min(CHUNK, most - size))
        if not chunk:
            break
        size += len(chunk)
        if size > limit:
            raise too_large(limit)
        room.grow(len(chunk))
        chunks.append(chunk)
        deadline.check()
    if declared is not None and size < declared:
        raise refusal_error(Fault.MALFORMED, "the body is shorter than its Content-Length")
    return b"".join(chunks)


def request_of(environ: Environ) -> Request:
    """What the gate needs; WSGI joins repeated headers with commas before anybody can see them."""
    headers = {
        name[5:].replace("_", "-").lower(): value
        for name, value in environ.items()
        if name.startswith("HTTP_") and isinstance(value, str)
    }
    for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(name):
            headers[name.replace("_", "-").lower()] = environ[name]
    refuse_large_headers([len(name) + len(value) for name, value in headers.items()])
    encoding = headers.get("content-encoding")
    return Request(
        environ["REQUEST_METHOD"],
        headers,
        url_of(environ, headers),
        environ.get("REMOTE_ADDR") or None,
        encoding.strip().lower() or None if encoding is not None else None,
        declared_length(environ.get("CONTENT_LENGTH")),
        "transfer-encoding" in headers,
        "upgrade" in headers,
    )


def url_of(environ: Environ, headers: dict[str, str]) -> str:
    """The URL as it was asked for here; behind a proxy the source's own ``url=`` is better."""
    host = headers.get("host") or f"{environ['SERVER_NAME']}:{environ['SERVER_PORT']}"
    path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    query = environ.get("QUERY_STRING", "")
    quoted = quote(path, safe="/;=,~:@!$&'()*+-._%", encoding="latin-1")
    return f"{environ['wsgi.url_scheme']}://{host}{quoted}{'?' if query else ''}{query}"
