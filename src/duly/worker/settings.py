"""The settings of a worker: its queues, its lease and its pauses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from duly.core.errors import UsageError
from duly.core.retry import RESCUE_BACKOFF, Backoff
from duly.core.validation import checked_count, checked_duration
from duly.jobs.handlers import QUEUE, checked_queue
from duly.service.maintenance import COUNTERS_FLUSH

# Enough to keep a processor busy with jobs that mostly wait, and few enough for a small database.
CONCURRENCY = 10
MOST_AT_ONCE = 1000
# Long enough for a pause of a busy machine; after a crash it is the delay before a rescue.
LEASE = timedelta(seconds=30)
SHORTEST_LEASE = timedelta(milliseconds=100)
# Most supervisors wait so long, or longer, before they kill.
GRACE = timedelta(seconds=25)
# Threads that never come back cost memory, and each may hold a lock.
STUCK = 3


@dataclass(frozen=True, slots=True)
class WorkerPauses:
    """How long a worker waits between two looks, in seconds.

    Args:
        soonest: for work, where nothing wakes it: at first.
        latest: the same while it is idle, and after an error.
        time_limits: at the clock, for handlers that take too long.
        rescued: for rescued jobs while every slot is taken.
        counters: until counters are written.
        schedules: at the schedules, whose clock is the database's and may be set.
        rescue: how long a rescued job waits before it runs again.
    """

    soonest: float = 0.02
    latest: float = 0.5
    time_limits: float = 0.1
    rescued: float = 1.0
    counters: float = COUNTERS_FLUSH
    schedules: float = 1.0
    rescue: Backoff = RESCUE_BACKOFF


PAUSES = WorkerPauses()


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How one worker works."""

    queues: Mapping[str, int] = field(default_factory=lambda: {QUEUE: CONCURRENCY})
    lease: timedelta = LEASE
    grace: timedelta = GRACE
    stuck: int = STUCK
    # Whether bulk handlers get more than one job at a time.
    batching: bool = True
    pauses: WorkerPauses = field(default_factory=lambda: PAUSES)

    @property
    def at_once(self) -> int:
        """How many jobs run at the same time."""
        return sum(self.queues.values())


def worker_settings(
    concurrency: object, queues: object, lease: object, grace: object
) -> WorkerSettings:
    """Check what a caller asked for."""
    at_once = checked_count("concurrency", concurrency, most=MOST_AT_ONCE)
    if queues is None:
        queues = {QUEUE: at_once}
    elif isinstance(queues, str):
        raise UsageError(f"queues must be a list of names, or a mapping: queues=[{queues!r:.60}]")
    elif not isinstance(queues, Mapping):
        queues = dict.fromkeys(queue_names(queues), at_once)
    if not queues:
        raise UsageError("a worker needs a queue: queues={'default': 10}")
    chosen = {
        checked_queue(queue): checked_count(
            f"the concurrency of queue {queue}", n, most=MOST_AT_ONCE
        )
        for queue, n in queues.items()
    }
    checked_duration("lease", lease, least=SHORTEST_LEASE)
    checked_duration("grace", grace, least=timedelta(0))
    return WorkerSettings(chosen, lease, grace)  # type: ignore[arg-type]


def queue_names(queues: object) -> list[str]:
    """The names of queues, each with the worker's own concurrency."""
    try:
        return [checked_queue(queue) for queue in queues]  # type: ignore[attr-defined]
    except TypeError:
        raise UsageError("queues must be a list of names, or a mapping: {'default': 10}") from None
