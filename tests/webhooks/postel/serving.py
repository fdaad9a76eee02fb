"""The receiver that Postel's cases ask for: duly as it stands, behind a shim that renames answers.

The shim decides nothing. It puts duly's own word for a delivery into the header where the cases
look for it, and serves the public keys, which a receiver of webhooks does not have by itself.
"""

from __future__ import annotations

import base64
import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from duly import Duly
from duly.webhooks import Code
from tests.server.hostile.application import STORE
from tests.webhooks.postel.vectors import BY_KEY_ID, CODES, NOW, TOLERANCE, key, secrets

if TYPE_CHECKING:
    from duly import Event
    from duly.receiver.asgi import Receive, Scope, Send

KEYS = "/.well-known/webhooks-keys"
WORDS = {code.value: word for code, word in CODES.items()}
Message = dict[str, Any]


def pinned() -> datetime:
    """The moment at which all cases happen."""
    return datetime.fromtimestamp(NOW, UTC)


def application() -> Shim:
    """What the server process serves."""
    app = Duly(os.environ[STORE], clock=pinned)
    app.source("webhooks", provider=BY_KEY_ID, secret=secrets(), tolerance=TOLERANCE)

    @app.on("webhooks", name="handle")
    def handle(event: Event) -> None:
        """Nobody works here: what counts is the answer."""

    return Shim(app)


class Shim:
    """duly with the headers of the cases."""

    def __init__(self, app: Duly) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == KEYS:
            await answer(send, json.dumps({"keys": public_keys()}).encode())
            return
        await self._app(scope, receive, Renamed(send) if scope["type"] == "http" else send)


class Renamed:
    """Holds back the start of an answer until its body says what it means."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message = {}

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        self._start["headers"] = [*self._start["headers"], *translated(message["body"])]
        await self._send(self._start)
        await self._send(message)


def translated(body: bytes) -> list[tuple[bytes, bytes]]:
    """The headers that mean what duly's answer says."""
    told = json.loads(body)
    if told.get("status") == "duplicate":
        return [(b"x-postel-dedup-result", b"duplicate")]
    if told.get("error") in WORDS:
        return [(b"x-postel-verify-error", WORDS[Code(told["error"])].encode())]
    return []


def public_keys() -> list[dict[str, str]]:
    """The public halves of the receiver's key pairs, as JSON Web Keys."""
    return [public_key(name, f"kid_{name[-1]}") for name in ("ed25519_a", "ed25519_b")]


def public_key(name: str, key_id: str) -> dict[str, str]:
    raw = base64.b64decode(key(name, "public_key").removeprefix("whpk_"))
    text = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    return {"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": key_id, "x": text}


async def answer(send: Send, body: bytes) -> None:
    """A whole answer in JSON."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
