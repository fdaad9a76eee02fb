"""A request without its body, and the refusals of what cannot be received."""

from __future__ import annotations

import logging
import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

from duly.receiver.responses import Fault, RequestRefused, refusal_error

if TYPE_CHECKING:
    from duly.webhooks.delivery import Headers

logger = logging.getLogger("duly")
# More than any provider sends; a server's own limits are wider.
MOST_HEADERS: Final = 128
HEADER_BYTES: Final = 32 * 1024
# Text compresses a hundredfold at most; a bomb a thousandfold and more.
RATIO: Final = 200
# 16 more tell zlib to expect gzip's header, 32 that it may be either.
WINDOW: Final = 32 + zlib.MAX_WBITS
INFLATABLE: Final = ("gzip", "x-gzip", "deflate")


class Request(NamedTuple):
    """One request without its body."""

    method: str
    headers: Headers
    url: str
    remote: str | None
    encoding: str | None
    declared: int | None  # what Content-Length says
    streamed: bool = False  # Transfer-Encoding announces a body
    upgrade: bool = False  # another protocol is offered


class WholeRequest(NamedTuple):
    """A small POST without its body: no header repeats, and none is about the body's form."""

    pairs: list[tuple[bytes, bytes]]
    fields: dict[bytes, bytes]
    path: str
    remote: str | None
    scheme: str

    def as_request(self) -> Request:
        """The request as every other one is described."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in self.pairs}
        url = f"{self.scheme}://{headers.get('host', '')}{self.path}"
        declared = declared_length(headers.get("content-length"))
        return Request("POST", headers, url, self.remote, None, declared)


def headers_too_large() -> RequestRefused:
    """The refusal of more headers, or larger ones, than a webhook has."""
    return refusal_error(
        Fault.HEADERS_TOO_LARGE,
        f"at most {MOST_HEADERS} headers of {HEADER_BYTES} bytes together are read",
    )


def declared_length(text: str | None) -> int | None:
    """What Content-Length says; a number that cannot be one is refused."""
    if text is None or text == "":
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise refusal_error(Fault.MALFORMED, "Content-Length is not a number of bytes")
    return int(text)


def too_large(limit: int) -> RequestRefused:
    """The refusal of a body beyond its limit."""
    return refusal_error(Fault.TOO_LARGE, f"a body here has at most {limit} bytes")


def body_taken(source: str) -> RequestRefused:
    """The refusal of a delivery whose bytes are gone; the log says how to change that."""
    logger.error(
        "a delivery to %s cannot be verified: its body was read before duly saw it, and the bytes "
        "were not kept. Exclude this path in the middleware that reads bodies, or put it behind "
        "duly; reading the whole raw body, which the framework keeps, is fine",
        source,
    )
    return refusal_error(
        Fault.BODY_TAKEN,
        "something here read the body before it could be verified: exclude this path in the "
        "middleware that reads bodies, or put it behind duly",
    )


def refusal_of_lost_body(request: Request, source: str) -> RequestRefused:
    """The refusal of a body that was announced and is not here."""
    if request.upgrade:  # such a server takes what follows for another protocol
        return refusal_error(
            Fault.MALFORMED,
            "this server drops the body of a request with an Upgrade header: send it without one",
            connection="close",
        )
    return body_taken(source)


def refuse_lost_body(request: Request, body: bytes, source: str) -> None:
    """Refuse a body that is shorter than announced: the server or a middleware has lost it."""
    if request.declared is not None and len(body) < request.declared:
        raise refusal_of_lost_body(request, source)
    if request.streamed and request.upgrade and not body:
        raise refusal_of_lost_body(request, source)


def refuse_encoding(encoding: str | None, *, decompress: bool) -> None:
    """Refuse a compressed body unless the source allows it."""
    if encoding is None or encoding == "identity":
        return
    if not decompress or encoding not in INFLATABLE:
        raise refusal_error(
            Fault.UNSUPPORTED_ENCODING,
            "compressed bodies are not read here: send the body as it is",
            accept_encoding="gzip, deflate" if decompress else "identity",
        )


def decompress_body(body: bytes, encoding: str | None, limit: int) -> bytes:
    """The body as it was before it was compressed, never more of it than the limit."""
    if encoding is None or encoding == "identity":
        return body
    most = min(limit, max(len(body), 1) * RATIO)
    inflating = zlib.decompressobj(WINDOW)
    try:
        inflated = inflating.decompress(body, most + 1)
    except zlib.error:
        raise refusal_error(Fault.MALFORMED, "the body cannot be decompressed") from None
    if len(inflated) > most:
        raise too_large(limit)
    if not inflating.eof or inflating.unused_data:
        raise refusal_error(
            Fault.MALFORMED, "the compressed body has no end, or something after it"
        )
    return inflated
