"""Responses: a status, and a small JSON object that a person can read."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.core.errors import Rejected
    from duly.webhooks.handshake import HandshakeReply as Handshake

JSON = "application/json"
# JSON's own spelling of a text, without the way round through a whole document.
quote_json = json.encoder.encode_basestring_ascii


class Fault(StrEnum):
    """Why a request was refused, as the word that a reply and a log carry."""

    UNKNOWN_SOURCE = "UNKNOWN_SOURCE"
    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"
    TOO_SLOW = "TOO_SLOW"
    TOO_LARGE = "TOO_LARGE"
    UNSUPPORTED_ENCODING = "UNSUPPORTED_ENCODING"
    HEADERS_TOO_LARGE = "HEADERS_TOO_LARGE"
    MALFORMED = "MALFORMED"
    LENGTH_REQUIRED = "LENGTH_REQUIRED"
    NOT_IMPLEMENTED = "NOT_IMPLEMENTED"
    BODY_TAKEN = "BODY_TAKEN"
    HANDLER_FAILED = "HANDLER_FAILED"
    TENANT_FAILED = "TENANT_FAILED"
    STORE_UNAVAILABLE = "STORE_UNAVAILABLE"
    HELD = "HELD"
    OVERLOADED = "OVERLOADED"
    FAILED = "FAILED"


STATUSES = {
    Fault.UNKNOWN_SOURCE: 404,
    Fault.METHOD_NOT_ALLOWED: 405,
    Fault.TOO_SLOW: 408,
    Fault.LENGTH_REQUIRED: 411,
    Fault.TOO_LARGE: 413,
    Fault.UNSUPPORTED_ENCODING: 415,
    Fault.HEADERS_TOO_LARGE: 431,
    Fault.MALFORMED: 400,
    Fault.BODY_TAKEN: 500,
    Fault.FAILED: 500,
    Fault.HANDLER_FAILED: 500,
    Fault.TENANT_FAILED: 500,
    Fault.NOT_IMPLEMENTED: 501,
    Fault.STORE_UNAVAILABLE: 503,
    Fault.HELD: 503,
    Fault.OVERLOADED: 503,
}
# A body that was not read to its end is still on the wire: the connection cannot be used again.
UNREAD = frozenset(
    {
        *(Fault.TOO_SLOW, Fault.TOO_LARGE, Fault.UNKNOWN_SOURCE, Fault.OVERLOADED),
        *(Fault.METHOD_NOT_ALLOWED, Fault.UNSUPPORTED_ENCODING, Fault.HEADERS_TOO_LARGE),
        *(Fault.LENGTH_REQUIRED, Fault.NOT_IMPLEMENTED, Fault.FAILED),
    }
)


class Reply(NamedTuple):
    """A complete answer. ``event`` and ``said`` are for the log; no body is ever logged."""

    status: int
    body: bytes
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    event: str | None = None
    said: str = ""

    def pairs(self) -> list[tuple[str, str]]:
        """Every header of the answer."""
        if self.status == 204:  # which has no body
            return list(self.headers)
        return [
            ("content-type", self.content_type),
            ("content-length", str(len(self.body))),
            *self.headers,
        ]


class RequestRefused(Exception):  # an answer on its way out, not an error
    """A request that goes no further; the reply is complete."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.said)
        self.reply = reply


def refusal_error(fault: Fault, reason: str, **headers: str) -> RequestRefused:
    """The exception that ends a request with a refusal."""
    return RequestRefused(refusal_reply(fault, reason, headers))


def refusal_reply(fault: Fault, reason: str, headers: Mapping[str, str]) -> Reply:
    """The reply of a refusal."""
    extra = [(name.replace("_", "-"), value) for name, value in headers.items()]
    if fault in UNREAD:
        extra.append(("connection", "close"))
    body = json.dumps({"error": fault.value, "reason": reason}).encode()
    return Reply(STATUSES[fault], body, headers=tuple(extra), said=fault.value)


def rejection_reply(problem: Rejected) -> Reply:
    """The answer to what is not genuine."""
    body = json.dumps({"error": problem.code.value, "reason": problem.reason}).encode()
    return Reply(problem.status, body, said=problem.code.value)


def handshake_reply(reply: Handshake) -> Reply:
    """The answer to a provider's question."""
    return Reply(reply.status, reply.body, reply.content_type or "text/plain", said="handshake")


def event_reply(
    status: int, said: str, event: str, *, body_differs: bool = False, reason: str = ""
) -> Reply:
    """The answer to a delivery of one event; ``reason`` says why it was not processed."""
    more = ', "body_differs": true' if body_differs else ""
    more += f', "reason": {quote_json(reason)}' if reason else ""
    body = f'{{"status": "{said}", "event": {quote_json(event)}{more}}}'.encode()
    body = b"" if status == 204 else body
    return Reply(status, body, event=event, said=said)


def batch_reply(status: int, counts: Mapping[str, int], said: str, reason: str = "") -> Reply:
    """The answer to a delivery of several events: how many of each."""
    body = {"status": said, "events": sum(counts.values()), **counts}
    body |= {"reason": reason} if reason else {}
    return Reply(status, json.dumps(body).encode(), said=said)
