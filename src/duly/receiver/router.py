"""The router of an application: sources by path, health and readiness, and the body memory."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Final

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

# Bytes that all bodies together may take while they arrive and wait for their commit.
BODY_MEMORY: Final = 256 * 1024 * 1024
# More of them, for bodies as small as most providers send.
SPARE_MEMORY: Final = 64 * 1024 * 1024
SMALL: Final = 64 * 1024
HEALTH, READY = "/healthz", "/readyz"


class Router:
    """Finds the source of a path, answers health and readiness, and bounds the body memory."""

    def __init__(self, receiver: Receiver, async_runner: Runner, body_deadline: timedelta) -> None:
        self.body_deadline = body_deadline.total_seconds()
        self.routes: dict[str, Route] = {}
        self.rebind(receiver, async_runner)
        self._lock = threading.Lock()
        # Bytes of the bodies that arrive or wait for their commit.
        self.memory_used = 0

    def rebind(self, receiver: Receiver, async_runner: Runner) -> None:
        """Answer from this database from now on."""
        self.receiver = receiver
        self._async_runner = async_runner
        self.draining = False

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

    def take_memory(self, size: int, total: int) -> None:
        """Count more bytes of a body that has ``total`` now, or refuse: too many are held."""
        with self._lock:
            self.memory_used += size
            used = self.memory_used
        if used > BODY_MEMORY + (SPARE_MEMORY if total <= SMALL else 0):
            raise refusal_error(
                Fault.OVERLOADED,
                "too many large bodies are being received: come again in a moment",
                retry_after=str(RETRY_AFTER.seconds),
            )

    def release_memory(self, size: int) -> None:
        """Give back the bytes of a body that was answered."""
        with self._lock:
            self.memory_used -= size

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
        """The modes in which inline deliveries open their transactions."""
        return {
            route.handlers.mode for route in self.routes.values() if route.inline and route.handlers
        }

    async def start(self) -> None:
        """Reach the database now, so that a wrong address fails at the start."""
        self.draining = False
        self.receiver.enter_loop()
        await self._async_runner.run_autocommit(count_live_workers, wait=WAIT)

    async def stop(self) -> None:
        """Refuse new deliveries from now on, and write the counters."""
        self.draining = True
        await self.receiver.aclose()


def health_reply() -> Reply:
    """The answer of a process that is alive."""
    return Reply(200, b'{"status": "alive"}', said="alive")


def draining_reply() -> Reply:
    """The answer of a server that is shutting down."""
    return Reply(503, b'{"status": "draining"}', said="draining")


def readiness_reply(reason: str | None) -> Reply:
    """Whether deliveries would be accepted now; the log says more than the reason here."""
    if reason is None:
        return Reply(200, b'{"status": "ready"}', said="ready")
    body = json.dumps({"status": "unavailable", "reason": reason}).encode()
    return Reply(503, body, said="unavailable")
