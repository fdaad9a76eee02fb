"""The receiver as a WSGI application, on the server's own threads."""

from __future__ import annotations

import logging
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from duly.receiver.asgi import access, log_request
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
from duly.receiver.responses import Fault, RequestRefused, refusal_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from duly.inbox.route import Route
    from duly.receiver.responses import Reply
    from duly.receiver.router import Router

Environ = dict[str, Any]
CHUNK = 64 * 1024


def serve(router: Router, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer one request."""
    begun = time.perf_counter()
    method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO", "")
    try:
        reply = dispatch_request(router, environ, method, path)
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


def dispatch_request(router: Router, environ: Environ, method: str, path: str) -> Reply:
    """The answer to one request, found by its path."""
    route = router.routes.get(path) or router.routes.get(path.rstrip("/"))
    if route is None:
        own = router.answer_own_endpoint_blocking(path, method)
        if own is not None:
            return own
        raise refusal_error(Fault.UNKNOWN_SOURCE, "no source is received here")
    return receive_delivery(router, route, environ)


def receive_delivery(
    router: Router, route: Route, environ: Environ, request: Request | None = None
) -> Reply:
    """The answer of one source; an adapter knows the request already, in its framework's words."""
    if not allows(route, environ["REQUEST_METHOD"]):
        return method_not_allowed(route)
    request = request_of(environ) if request is None else request
    refuse_encoding(request.encoding, decompress=route.decompress)
    refuse_unreadable_body(environ, request)
    body = read_body(environ, route.max_body, request.declared, router)
    try:
        refuse_lost_body(request, body, route.name)
        return router.receiver.receive_blocking(route, request, body)
    finally:
        router.release_memory(len(body))


def refuse_unreadable_body(environ: Environ, request: Request) -> None:
    """Refuse a body that was announced without a length where the server marks no end of it."""
    terminated = environ.get("wsgi.input_terminated", False)
    if request.streamed and request.declared is None and not terminated:
        raise refusal_error(
            Fault.LENGTH_REQUIRED,
            "this server does not hand on chunked bodies: send a Content-Length",
        )


def read_body(environ: Environ, limit: int, declared: int | None, router: Router) -> bytes:
    """The whole body. Without a length it is read to its end where the server marks one.

    The memory it takes is the caller's to release; it is released here if the body is refused. A
    single read that never returns is the server's to end.
    """
    if declared is not None and declared > limit:
        raise too_large(limit)
    if declared is None and not environ.get("wsgi.input_terminated", False):
        return b""  # as WSGI has it: without a length there is no body that could be read safely
    until = time.monotonic() + router.body_deadline
    chunks: list[bytes] = []
    size = taken = 0
    try:
        for chunk in chunks_of(environ["wsgi.input"], limit + 1 if declared is None else declared):
            size += len(chunk)
            if size > limit:
                raise too_large(limit)
            taken = size
            router.take_memory(len(chunk), size)
            chunks.append(chunk)
            if time.monotonic() > until:
                raise refusal_error(Fault.TOO_SLOW, "the body did not arrive in time")
        if declared is not None and size < declared:
            raise refusal_error(Fault.MALFORMED, "the body is shorter than its Content-Length")
    except BaseException:
        router.release_memory(taken)
        raise
    return b"".join(chunks)


def chunks_of(stream: Any, most: int) -> Iterator[bytes]:
    """A stream in pieces, no more of it than so many bytes."""
    while most > 0 and (chunk := stream.read(min(CHUNK, most))):
        yield chunk
        most -= len(chunk)


def request_of(environ: Environ) -> Request:
    """The parts of a request that verification needs; WSGI has joined repeated headers."""
    headers = {
        name[5:].replace("_", "-").lower(): value
        for name, value in environ.items()
        if name.startswith("HTTP_") and isinstance(value, str)
    }
    for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(name):
            headers[name.replace("_", "-").lower()] = environ[name]
    if len(headers) > MOST_HEADERS or sum(map(len, [*headers, *headers.values()])) > HEADER_BYTES:
        raise headers_too_large()
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
