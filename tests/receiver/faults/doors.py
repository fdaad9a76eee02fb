"""The two ways into an application, both protocols spoken from code that blocks.

The application is called as a server calls it, without one in between: a test can then say which
requests are under way at the same moment, and end one of them where it likes.
"""

import asyncio
import io
import json
import sys
import threading
from collections.abc import Iterable, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import duly
from duly.webhooks.sign import Signed

PATIENCE = 40.0
THREADS = 64
Message = MutableMapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """What a sender was told."""

    status: int
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def said(self) -> str:
        """The one word of it."""
        word: str = self.body.get("status") or self.body["error"]
        return word

    @property
    def come_again(self) -> bool:
        """Whether the sender was told that nothing is certain, and when to send it again."""
        return self.status == 503 and int(self.headers.get("retry-after", 0)) >= 1


class Door(Protocol):
    """A running application, in one of its two forms."""

    def send(self, delivery: Signed, path: str = "/shop") -> Future[Answer]:
        """Begin a request."""

    def close(self) -> None:
        """End the application as a server does."""


def answer_of(status: int, headers: Iterable[tuple[str, str]], body: bytes) -> Answer:
    return Answer(status, dict(headers), json.loads(body))


async def asked(app: duly.Duly, delivery: Signed, path: str = "/shop") -> Answer:
    """One ASGI request from its first message to its last."""
    messages: list[Message] = [{"type": "http.request", "body": delivery.body}]
    told: list[Message] = []

    async def receive() -> Message:
        return messages.pop(0) if messages else await asyncio.Future()

    async def send(message: Message) -> None:
        told.append(message)

    await app(scope_of(delivery, path), receive, send)
    pairs = [(name.decode(), value.decode()) for name, value in told[0]["headers"]]
    return answer_of(told[0]["status"], pairs, told[1]["body"])


def scope_of(delivery: Signed, path: str) -> Message:
    headers = [(name.lower().encode(), value.encode()) for name, value in delivery.headers.items()]
    return {
        "type": "http",
        "method": "POST",
        "path": path,
        "headers": [*headers, (b"host", b"shop.test")],
    }


def called(app: duly.Duly, delivery: Signed, path: str = "/shop") -> Answer:
    """One WSGI request on this thread."""
    told: list[Any] = []
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": path,
        "SERVER_NAME": "shop.test",
        "SERVER_PORT": "80",
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(delivery.body),
        "wsgi.errors": sys.stderr,
        "CONTENT_LENGTH": str(len(delivery.body)),
    }
    for name, value in delivery.headers.items():
        plain = name.upper().replace("-", "_")
        environ[plain if plain == "CONTENT_TYPE" else f"HTTP_{plain}"] = value
    body = b"".join(app.wsgi(environ, lambda *started: told.extend(started)))
    return answer_of(int(told[0].split()[0]), told[1], body)


class AsgiDoor:
    """The ASGI form, on an event loop of its own."""

    def __init__(self, app: duly.Duly) -> None:
        self._app = app
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()))
        self._thread.start()
        self._ready.wait()

    async def _live(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        self._ready.set()
        await self._end.wait()
        await self._app.aclose()

    def send(self, delivery: Signed, path: str = "/shop") -> Future[Answer]:
        """Begin a request as a task of the loop."""
        return asyncio.run_coroutine_threadsafe(asked(self._app, delivery, path), self.loop)

    def close(self) -> None:
        """Close the application in its loop, then end the loop."""
        self.loop.call_soon_threadsafe(self._end.set)
        self._thread.join()


class WsgiDoor:
    """The WSGI form, on threads."""

    def __init__(self, app: duly.Duly) -> None:
        self._app = app
        self._threads = ThreadPoolExecutor(THREADS)

    def send(self, delivery: Signed, path: str = "/shop") -> Future[Answer]:
        """Begin a request on a thread."""
        return self._threads.submit(called, self._app, delivery, path)

    def close(self) -> None:
        """Let the threads end, then close the application."""
        self._threads.shutdown()
        self._app.close()


WAYS: dict[str, type[AsgiDoor | WsgiDoor]] = {"asgi": AsgiDoor, "wsgi": WsgiDoor}
