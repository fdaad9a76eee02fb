"""The sources of one application, its own endpoints, and what it may hold in memory."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Final, Self

from duly.core.defaults import WAIT
from duly.core.errors import UsageError
from duly.core.validation import kind
from duly.receiver.commit_queue import RETRY_AFTER
from duly.receiver.metrics import count_live_workers
from duly.receiver.responses import Fault, Reply, refusal_error

if TYPE_CHECKING:
    from datetime import timedelta

    from duly.core.functions import Mode
    from duly.core.session import Runner
    from duly.inbox.route import Route
    from duly.receiver.receiver import Receiver

# What bodies may take in memory while they arrive and are judged, all together.
BODY_ROOM: Final = 256 * 1024 * 1024
# Kept for bodies as most providers send them, whatever large ones take.
SPARE_ROOM: Final = 64 * 1024 * 1024
SMALL: Final = 64 * 1024
HEALTH, READY = "/healthz", "/readyz"


class Room:
    """The memory that one request's body takes, given back when it is answered."""

    __slots__ = ("_site", "_taken")

    def __init__(self, site: Router) -> None:
        self._site = site
        self._taken = 0

    def grow(self, size: int) -> None:
        """Take more, or refuse the request: others are large enough already."""
        self._taken += size
        spare = SPARE_ROOM if self._taken <= SMALL else 0
        if self._site.adjust_memory_used(size) > BODY_ROOM + spare:
            raise refusal_error(
                Fault.OVERLOADED,
                "too many large bodies are being received: come again in a moment",
                retry_after=str(RETRY_AFTER.seconds),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._site.adjust_memory_used(-self._taken)


class Router:
    """What is served: sources by their path, health and readiness."""

    def __init__(self, receiver: Receiver, async_runner: Runner, body_deadline: timedelta) -> None:
        self.body_deadline = body_deadline.total_seconds()
        self.routes: dict[str, Route] = {}
        self.rebind(receiver, async_runner)
        self._lock = threading.Lock()
        self._memory_used = 0

    def rebind(self, receiver: Receiver, async_runner: Runner) -> None:
        """Answer from this database from now on."""
        self.receiver = receiver
        self._async_runner = async_runner
        self.draining = False

    def find_route(self, path: str) -> Route | None:
        """The source that is served at a path, with or without a slash at its end."""
        found = self.routes.get(path)
        return self.routes.get(path.rstrip("/")) if found is None else found

    def route_named(self, source: object) -> Route:
        """A source by its name; the error says which there are."""
        found = self.routes.get(f"/{source}") if isinstance(source, str) else None
        if found is None:
            known = ", ".join(path[1:] for path in self.routes) or "none yet"
            asked = repr(source[:60]) if isinstance(source, str) else kind(source)
            raise UsageError(
                f"there is no source {asked}: call app.source(…) before this (there is {known})"
            )
        return found

    def room(self) -> Room:
        """Room for one body."""
        return Room(self)

    def adjust_memory_used(self, size: int) -> int:
        """Count memory that is taken or given back; returns how much is taken now."""
        with self._lock:
            self._memory_used += size
            return self._memory_used

    async def answer_own_endpoint(self, path: str, method: str) -> Reply | None:
        """The answer of duly's own endpoints; None where the path is none of them."""
        if path not in (HEALTH, READY) or method not in ("GET", "HEAD"):
            return None
        if path == HEALTH:
            return health_reply()
        if self.draining:
            return draining_reply()
        return readiness_reply(await self.receiver.readiness.check(self._inline_modes()))

    def answer_own_endpoint_blocking(self, path: str, method: str) -> Reply | None:
        """The same on the calling thread."""
        if path not in (HEALTH, READY) or method not in ("GET", "HEAD"):
            return None
        if path == HEALTH:
            return health_reply()
        if self.draining:
            return draining_reply()
        return readiness_reply(self.receiver.readiness.check_blocking(self._inline_modes()))

    def _inline_modes(self) -> set[Mode]:
        """The colours in which inline deliveries open their transactions."""
        return {
            route.handlers.mode for route in self.routes.values() if route.inline and route.handlers
        }

    async def start(self) -> None:
        """Reach the database now, so that a mistake in its address is told at once."""
        self.draining = False
        self.receiver.enter_loop()
        await self._async_runner.run_autocommit(count_live_workers, wait=WAIT)

    async def stop(self) -> None:
        """Say that no more is wanted, and write what was counted."""
        self.draining = True
        await self.receiver.aclose()


def health_reply() -> Reply:
    """The process lives."""
    return Reply(200, b'{"status": "alive"}', said="alive")


def draining_reply() -> Reply:
    """The server ends, and wants no more."""
    return Reply(503, b'{"status": "draining"}', said="draining")


def readiness_reply(reason: str | None) -> Reply:
    """Whether deliveries would be taken now; the answer has a word for why not, the log more."""
    if reason is None:
        return Reply(200, b'{"status": "ready"}', said="ready")
    body = json.dumps({"status": "unavailable", "reason": reason}).encode()
    return Reply(503, body, said="unavailable")
