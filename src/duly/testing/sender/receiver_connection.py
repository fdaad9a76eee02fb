"""One request and what came back, by the standard library: no redirects, no proxies, bounded."""

from __future__ import annotations

import json
import socket
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import duly
from duly.core.errors import UsageError

if TYPE_CHECKING:
    from http.client import HTTPResponse

    from duly.webhooks.sign import Signed

# Replies of duly are a few dozen bytes; other answers are not read to their end.
MOST_READ, MOST_SHOWN, MOST_REASON = 64 * 1024, 200, 500
TOO_OLD = "too_old"

MISHAPS: tuple[tuple[type[Exception], str], ...] = (
    (ConnectionRefusedError, "nothing listens there; start the receiver: duly serve app:app"),
    (ConnectionResetError, "the connection was closed without a reply"),
    (BrokenPipeError, "the connection was closed without a reply"),
    (socket.gaierror, "the name of the host is not known"),
)


@dataclass(frozen=True, slots=True)
class DeliveryAnswer:
    """What one delivery met: a reply, or the reason why there was none.

    ``word`` is the ``status`` or ``error`` of a reply of duly, else what HTTP calls its status;
    ``error`` says which of the two it was. ``body_differs`` is what duly says of a duplicate whose
    id came with another body before.
    """

    status: int | None
    word: str
    seconds: float
    error: bool = False
    reason: str = ""
    body_differs: bool = False
    # An event of the delivery was stored for its age, and not processed.
    too_old: bool = False


def checked_url(url: str) -> str:
    """A URL that can be called, without its fragment, which never leaves a client."""
    problem = problem_with(url)
    if problem:
        # Not the text itself: with the arguments in another order it is the secret.
        raise UsageError(f"URL must be like http://127.0.0.1:8000/stripe: {problem}")
    return url.partition("#")[0]


def problem_with(url: str) -> str | None:
    """Why this cannot be called."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "its host or port cannot be read"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return "this one does not begin with http:// or https:// and a host"
    if "@" in parts.netloc:
        return "no user and password in it; use --header 'Authorization: …'"
    if not url.isascii() or not url.isprintable() or " " in url:
        return "write what is not plain ASCII as %20 and the like"
    return None


class ReceiverConnection:
    """A connection to the receiver, opened before it is used. The opener closes it."""

    def __init__(self, url: str, timeout: float) -> None:
        parts = urlsplit(url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._connection = kind(parts.hostname or "", parts.port, timeout=timeout)
        self._timeout = timeout

    def open(self) -> DeliveryAnswer | None:
        """Connect; an answer where that failed."""
        begun = time.monotonic()
        try:
            self._connection.connect()
        except (OSError, HTTPException) as problem:
            return self._failure_answer(problem, begun)
        return None

    def post(self, signed: Signed) -> DeliveryAnswer:
        """Send one delivery and wait for its reply."""
        begun = time.monotonic()
        try:
            response = self._exchange(signed)
            body = read_within(response, begun + self._timeout)
        except (OSError, HTTPException) as problem:
            return self._failure_answer(problem, begun)
        return answer_of(response.status, body, time.monotonic() - begun)

    def _exchange(self, signed: Signed) -> HTTPResponse:
        parts = urlsplit(signed.url or "")
        path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        headers = {"User-Agent": f"duly/{duly.__version__}", **signed.headers}
        # A server that refuses a large body may answer, and close, before it has all of it.
        with suppress(BrokenPipeError, ConnectionResetError):
            self._connection.request(signed.method, path, signed.body, headers)
        return self._connection.getresponse()

    def _failure_answer(self, problem: Exception, begun: float) -> DeliveryAnswer:
        reason = explain_failure(problem, self._timeout)
        return DeliveryAnswer(
            None, "no answer", time.monotonic() - begun, error=True, reason=reason
        )

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def read_within(response: HTTPResponse, deadline: float) -> bytes:
    """The beginning of a reply's body; the socket's own limit counts from byte to byte."""
    body = b""
    while len(body) < MOST_READ and (chunk := response.read1(MOST_READ - len(body))):
        body += chunk
        if time.monotonic() > deadline:
            raise TimeoutError
    return body


def explain_failure(problem: Exception, timeout: float) -> str:
    """Why there was no reply, and nothing of what was sent."""
    if isinstance(problem, TimeoutError):
        return f"nothing came within {timeout:g} s (--timeout)"
    if isinstance(problem, ssl.SSLError):
        return f"no secure connection: {problem.reason or 'it is no server of https'}"
    known = next((words for kind, words in MISHAPS if isinstance(problem, kind)), None)
    if known is None and isinstance(problem, OSError):
        return (problem.strerror or type(problem).__name__).lower()
    return known or "what came back is not HTTP"


def answer_of(status: int, body: bytes, seconds: float) -> DeliveryAnswer:
    """A reply, with the word that duly put into it where there is one."""
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    members = found if isinstance(found, dict) else {}
    known = status in HTTPStatus.__members__.values()
    word = printable_text(members.get("error")) or printable_text(members.get("status"))
    return DeliveryAnswer(
        status,
        word or (HTTPStatus(status).phrase if known else "an unknown status"),
        seconds,
        error=bool(printable_text(members.get("error"))),
        reason=printable_text(members.get("reason"), MOST_REASON),
        body_differs=members.get("body_differs") is True,
        too_old=is_too_old(members),
    )


def is_too_old(members: dict[str, Any]) -> bool:
    """True where duly says of an event, or counts among several, that it is too old."""
    count = members.get(TOO_OLD)
    return members.get("status") == TOO_OLD or (isinstance(count, int) and count > 0)


def printable_text(text: object, most: int = MOST_SHOWN) -> str:
    """A text from elsewhere that cannot move the cursor or fill the screen."""
    if not isinstance(text, str):
        return ""
    return "".join(one if one.isprintable() else " " for one in text[:most]).strip()
