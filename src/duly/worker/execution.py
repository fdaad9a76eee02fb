"""Runs of leased jobs, as the worker keeps track of them: one job, or a batch of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.core.host import HOST
from duly.jobs.lease import JobSettlement
from duly.jobs.order import version_of_payload

if TYPE_CHECKING:
    import asyncio
    from collections import deque
    from collections.abc import Callable, Sequence

    from duly.core.host import Host
    from duly.jobs.handlers import Handler
    from duly.jobs.lease import LeasedJob
    from duly.jobs.order import Order
    from duly.jobs.outcome import JobOutcome
    from duly.ledger.arguments import VersionAdvance


class Execution:
    """One run of a job, from its lease to its settled end."""

    __slots__ = (
        *("batch", "duration", "ended", "event", "handler", "handler_started_at", "held_since"),
        *("host", "id", "joins", "launched_at", "leased", "leased_at", "revoke", "task", "version"),
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
        # Since when it waits for a slot.
        self.held_since = self.leased_at
        self.launched_at: float | None = None
        self.handler_started_at: float | None = None
        # How it ended, once that is decided: by the handler, a timeout or a lost lease.
        self.ended: JobOutcome | None = None
        # Microseconds that its handler ran.
        self.duration = 0
        self.task: asyncio.Task[None] | None = None
        # Takes the connection away from a handler that does not return.
        self.revoke: Callable[[], None] | None = None
        # The batch that it is in, and whether it may be in one: only a job that never failed and
        # was never lost, so that no other pays for it twice.
        self.batch: Batch | None = None
        self.joins = handler.many is not None and not leased.attempts and not leased.rescues
        # What an ordered bulk handler applies, if it joins a batch.
        self.version: VersionAdvance | None = None
        if self.joins and handler.order is not None:
            self._read_version(handler.order)

    def _read_version(self, order: Order) -> None:
        try:
            self.version = version_of_payload(order, self.handler.name, self.leased)
        except Exception:  # it runs alone, and fails there
            self.joins = False

    @property
    def members(self) -> Sequence[Execution]:
        """The runs whose leases this run has: itself, or those of a batch."""
        return (self,)

    def return_to_wait(self) -> None:
        """Let it wait for a slot of its own: its batch is over, and it has its lease."""
        self.batch = self.ended = None
        self.held_since = self.host.monotonic()

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


class Batch(Execution):
    """One run of several jobs by a bulk handler: one slot, one timeout, one transaction."""

    __slots__ = ("_members", "error", "lost", "stale")

    def __init__(self, members: Sequence[Execution]) -> None:
        first = members[0]
        super().__init__(first.leased, first.handler, None, first.host)
        self._members = tuple(members)
        self.id = f"{first.id} and {len(members) - 1} more"
        self.leased_at = first.leased_at
        self.held_since = min(one.held_since for one in members)
        # Members whose leases another worker has, and those that a later version made stale.
        self.lost: set[Execution] = set()
        self.stale: set[Execution] = set()
        # Why it was rolled back, as errors of jobs are stored.
        self.error: bytes | None = None
        for one in members:
            one.batch = self

    @property
    def members(self) -> Sequence[Execution]:
        """The runs of its jobs."""
        return self._members

    def dissolve(self, *, joins: bool = False) -> list[Execution]:
        """Let its members go; return those that still have their leases, to run alone."""
        held = [one for one in self._members if one not in self.lost]
        for one in self._members:
            one.batch = None
        for one in held:
            one.joins = joins
            one.return_to_wait()
        return held


def gather_batch(first: Execution, waiting: deque[Execution], most: int) -> Execution:
    """Take what joins this run out of those that wait: of its handler, and up to so many.

    Two versions of one resource are never in one batch: the later one waits for the next.
    """
    if not first.joins or most == 1:
        return first
    members, resources = [first], {resource_of(first)}
    others: list[Execution] = []
    while waiting and len(members) < most:
        one = waiting.popleft()
        resource = resource_of(one)
        known = resource is not None and resource in resources
        if known or not one.joins or one.handler is not first.handler:
            others.append(one)
        else:
            members.append(one)
            resources.add(resource)
    waiting.extendleft(reversed(others))
    return first if len(members) == 1 else Batch(members)


def resource_of(run: Execution) -> bytes | None:
    """The resource whose version a run applies."""
    return None if run.version is None else run.version.resource.digest
