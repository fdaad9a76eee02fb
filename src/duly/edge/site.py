"""The sources of one application, its own endpoints, and what it may hold in memory."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from typing import TYPE_CHECKING, Final, Self

from duly._kernel.errors import DulyError
from duly._kernel.onestep import finish
from duly._kernel.options import WAIT
from duly.edge.lanes import RETRY_AFTER
from duly.edge.replies import Fault, Reply, refused
from duly.edge.reports import alive

if TYPE_CHECKING:
    from datetime import timedelta

    from duly._kernel.session import Runner
    from duly.edge.receiver import Receiver
    from duly.edge.routes import Route

logger = logging.getLogger("duly")
# What bodies may take in memory while they arrive and are judged, all together.
BODY_ROOM: Final = 256 * 1024 * 1024
# Kept for bodies as most providers send them, whatever large ones take.
SPARE_ROOM: Final = 64 * 1024 * 1024
SMALL: Final = 64 * 1024
HEALTH, READY = "/healthz", "/readyz"


class Room:
    """The memory that one request's body takes, given back when it is answered."""

    __slots__ = ("_site", "_taken")

    def __init__(self, site: Site) -> None:
        self._site = site
        self._taken = 0

    def grow(self, size: int) -> None:
        """Take more, or refuse the request: others are large enough already."""
        self._taken += size
        spare = SPARE_ROOM if self._taken <= SMALL else 0
        if self._site.taken(size) > BODY_ROOM + spare:
            raise refused(
                Fault.OVERLOADED,
                "too many large bodies are being received: come again in a moment",
                retry_after=str(RETRY_AFTER.seconds),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._site.taken(-self._taken)


class Site:
    """What is served: sources by their path, health and readiness."""

    def __init__(
        self, receiver: Receiver, blocking: Runner, awaited: Runner, body_deadline: timedelta
    ) -> None:
        self.body_deadline = body_deadline.total_seconds()
        self.routes: dict[str, Route] = {}
        self.move(receiver, blocking, awaited)
        self._lock = threading.Lock()
        self._taken = 0

    def move(self, receiver: Receiver, blocking: Runner, awaited: Runner) -> None:
        """Answer from this database from now on."""
        self.receiver = receiver
        self._blocking = blocking
        self._awaited = awaited
        self.draining = False

    def route(self, path: str) -> Route | None:
        """The source that is served at a path, with or without a slash at its end."""
        found = self.routes.get(path)
        return self.routes.get(path.rstrip("/")) if found is None else found

    def room(self) -> Room:
        """Room for one body."""
        return Room(self)

    def taken(self, size: int) -> int:
        """Count memory that is taken or given back; returns how much is taken now."""
        with self._lock:
            self._taken += size
            return self._taken

    async def own(self, path: str, method: str) -> Reply | None:
        """The answer of duly's own endpoints; None where the path is none of them."""
        if path not in (HEALTH, READY) or method not in ("GET", "HEAD"):
            return None
        if path == HEALTH:
            return health()
        if self.draining:
            return self.readiness(None)
        try:
            async with asyncio.timeout(WAIT.total_seconds()):
                await self._awaited.run_single(alive, wait=WAIT)
        except (DulyError, TimeoutError) as problem:
            return self.readiness(problem)
        return self.readiness(None)

    def own_blocking(self, path: str, method: str) -> Reply | None:
        """The same on the calling thread."""
        if path not in (HEALTH, READY) or method not in ("GET", "HEAD"):
            return None
        if path == HEALTH:
            return health()
        if self.draining:
            return self.readiness(None)
        try:
            finish(self._blocking.run_single(alive, wait=WAIT))
        except DulyError as problem:
            return self.readiness(problem)
        return self.readiness(None)

    def readiness(self, problem: Exception | None) -> Reply:
        """Whether deliveries would be taken now; the log tells why not, the answer does not."""
        if problem is not None:
            logger.warning("not ready: %s", str(problem) or "the database did not answer in time")
        said = "draining" if self.draining else "unavailable" if problem is not None else "ready"
        body = json.dumps({"status": said}).encode()
        return Reply(200 if said == "ready" else 503, body, said=said)

    async def start(self) -> None:
        """Reach the database now, so that a mistake in its address is told at once."""
        self.draining = False
        self.receiver.enter_loop()
        await self._awaited.run_single(alive, wait=WAIT)

    async def stop(self) -> None:
        """Say that no more is wanted, and write what was counted."""
        self.draining = True
        await self.receiver.aclose()


def health() -> Reply:
    """The process lives."""
    return Reply(200, b'{"status": "alive"}', said="alive")
