"""A bare ASGI application: signature, JSON and reply by hand, nothing of a framework between.

What it does with a genuine delivery is the peer's own. Without anything to do it is the `ceiling`:
what one process of this server can receive with no database at all.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from benchmarks.ingesting.deliveries import KEY, SOURCE

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
# The columns of an event: source, event id, type, headers, body, fingerprint.
Values = tuple[str, str, str, str, bytes, bytes]
# Keeps an event and its job; whether it was new.
Keep = Callable[[Values], Awaitable[bool]]

TOLERANCE = 300
HANDLER = "remember"
# Which headers are kept with an event.
CHOSEN = (b"content-type", b"user-agent", b"webhook-id", b"webhook-timestamp")
JSON = (b"content-type", b"application/json")


class Forged(Exception):
    """No signature fits, or it is too old."""


class Bare:
    """One route, one handler; ``opened`` makes what keeps events, and closes it at the end."""

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[Keep]]) -> None:
        self._opened = opened
        self._keep: Keep | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request, or the life of the server."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        status, body = await self._answer(dict(scope["headers"]), await read(receive))
        length = (b"content-length", str(len(body)).encode())
        await send({"type": "http.response.start", "status": status, "headers": [JSON, length]})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, headers: dict[bytes, bytes], body: bytes) -> tuple[int, bytes]:
        try:
            values = verified(headers, body)
        except (Forged, KeyError, ValueError):
            return 403, b'{"status":"refused"}'
        if self._keep is None:
            return 503, b'{"status":"closed"}'
        said = b"accepted" if await self._keep(values) else b"duplicate"
        return 200, b'{"status":"%b","event":"%b"}' % (said, headers[b"webhook-id"])

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        async with self._opened() as self._keep:
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


async def read(receive: Receive) -> bytes:
    """The whole body; one message holds it nearly always."""
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body"):
        message = await receive()
        body += message.get("body", b"")
    return body


def verified(headers: dict[bytes, bytes], body: bytes) -> Values:
    """The event of a genuine delivery, as it is stored."""
    identifier, stamp = headers[b"webhook-id"], headers[b"webhook-timestamp"]
    if abs(time.time() - int(stamp)) > TOLERANCE:
        raise Forged
    signed = hmac.digest(KEY, b"%b.%b.%b" % (identifier, stamp, body), "sha256")
    expected = b"v1," + base64.b64encode(signed)
    given = headers[b"webhook-signature"].split()
    if not any(hmac.compare_digest(expected, one) for one in given):
        raise Forged
    event = json.loads(body)
    chosen = {name.decode(): headers[name].decode("latin-1") for name in CHOSEN if name in headers}
    fingerprint = hashlib.sha256(body).digest()
    return SOURCE, identifier.decode(), event["type"], json.dumps(chosen), body, fingerprint
