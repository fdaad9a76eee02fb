"""One run of a leased job, as the worker keeps track of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.core.host import HOST
from duly.jobs.lease import JobSettlement

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from duly.core.host import Host
    from duly.jobs.handlers import Handler
    from duly.jobs.lease import LeasedJob
    from duly.jobs.outcome import JobOutcome


class Execution:
    """One run of a job, from its lease to its settled end."""

    __slots__ = (
        *("duration", "ended", "event", "handler", "handler_started_at", "launched_at", "leased"),
        *("host", "id", "leased_at", "revoke", "task"),
    )

    def __init__(self, leased: LeasedJob, handler: Handler, event: Any, host: Host = HOST) -> None:
        self.host = host
        self.id = leased.lease.id
        self.leased = leased
        self.handler = handler
        self.event = event
        # When it was leased, when a task or thread got it, and when its handler may have begun, by
        # a clock that never jumps. In between it may wait for a connection.
        self.leased_at = self.host.monotonic()
        self.launched_at: float | None = None
        self.handler_started_at: float | None = None
        # How it ended, once that is decided: by the handler, a timeout or a lost lease.
        self.ended: JobOutcome | None = None
        # Microseconds that its handler ran.
        self.duration = 0
        self.task: asyncio.Task[None] | None = None
        # Takes the connection away from a handler that does not return.
        self.revoke: Callable[[], None] | None = None

    @property
    def elapsed(self) -> int:
        """Microseconds since its handler began."""
        return (
            0
            if self.handler_started_at is None
            else int((self.host.monotonic() - self.handler_started_at) * 1_000_000)
        )

    def settlement(self, ended: JobOutcome) -> JobSettlement:
        """The end of its lease, to be written."""
        return JobSettlement(self.leased.lease, ended, self.elapsed, self.leased.attempts + 1)

    def is_overdue(self, now: float, grace: float = 0.0) -> bool:
        """True if it has run longer than its handler may."""
        if self.handler_started_at is None or self.ended is not None:
            return False
        return now > self.handler_started_at + self.handler.timeout / 1_000_000 + grace
