"""One job in the hands of this process, from its lease to the end of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from duly.jobs.handlers import Handler
    from duly.jobs.lease import Leased
    from duly.jobs.outcome import Ended


class Run:
    """What this process knows of a job that it leased."""

    __slots__ = (
        *("begun", "ended", "event", "handler", "held", "leased", "revoke", "started", "task"),
        "took",
    )

    def __init__(self, leased: Leased, handler: Handler, event: Any) -> None:
        self.leased = leased
        self.handler = handler
        self.event = event
        # When it was leased, given to a task or thread, and when its handler may have begun: by a
        # clock that never jumps. In between it may wait for a connection.
        self.held = time.monotonic()
        self.started: float | None = None
        self.begun: float | None = None
        # How it ended, once somebody has decided so: the handler, a timeout, a lost lease.
        self.ended: Ended | None = None
        # For how many microseconds its handler ran.
        self.took = 0
        self.task: asyncio.Task[None] | None = None
        # Takes the connection from a handler that does not let go.
        self.revoke: Callable[[], None] | None = None

    @property
    def ran(self) -> int:
        """For how many microseconds it has run."""
        return 0 if self.begun is None else int((time.monotonic() - self.begun) * 1_000_000)

    def overdue(self, now: float, grace: float = 0.0) -> bool:
        """Whether it has run longer than its handler may."""
        if self.begun is None or self.ended is not None:
            return False
        return now > self.begun + self.handler.timeout / 1_000_000 + grace
