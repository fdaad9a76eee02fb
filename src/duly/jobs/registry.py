"""The handlers of an app, by the names under which the database knows them."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.core import json_bytes
from duly.core.errors import UsageError
from duly.core.host import HOST, Host
from duly.core.validation import checked_duration, checked_key, checked_start, kind
from duly.jobs.enqueue import NewJob, job_scope
from duly.jobs.handlers import checked_queue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.jobs.handlers import Handler
    from duly.outbox.registry import OutboxRegistry

# Longer than any retry of a caller, and short enough that tomorrow's job is a new one.
WINDOW = timedelta(hours=24)
# What PostgreSQL keeps in two bytes.
MOST_URGENT, LEAST_URGENT = -32768, 32767
# One statement carries them all.
MOST_JOBS = 10_000


class JobRegistry:
    """Plain jobs by name, and handlers of events by source and name."""

    def __init__(self, host: Host = HOST) -> None:
        self.host = host
        self.plain: dict[str, Handler] = {}
        self.events: dict[tuple[str, str], Handler] = {}

    def add(self, handler: Handler) -> None:
        """Add a plain job."""
        known = self.plain.get(handler.name)
        if known is not None and known.call != handler.call:
            raise UsageError(f"there is a job {handler.name} already: give this one name=")
        self.plain[handler.name] = handler

    def add_event(self, source: str, handler: Handler) -> None:
        """Add the handler of a source."""
        self.events[source, handler.name] = handler

    def find(self, source: str | None, name: str) -> Handler | None:
        """The handler of a job; None where this process has none of that name."""
        return self.plain.get(name) if source is None else self.events.get((source, name))

    def all(self) -> list[Handler]:
        """Every handler."""
        return [*self.plain.values(), *self.events.values()]

    def find_plain(self, job: object) -> Handler:
        """The handler of a plain job, by its function or its name."""
        found = (
            self.plain.get(job)
            if isinstance(job, str)
            else next((one for one in self.plain.values() if one.call == job), None)
        )
        if found is None:
            asked = repr(job[:60]) if isinstance(job, str) else getattr(job, "__name__", kind(job))
            known = ", ".join(sorted(self.plain)) or "none yet"
            raise UsageError(f"{asked} is no job: register it with @app.job (there is {known})")
        return found

    def new(
        self,
        job: object,
        payload: object,
        *,
        key: object = None,
        window: object = WINDOW,
        delay: object = None,
        at: object = None,
        priority: object = 0,
        queue: object = None,
    ) -> NewJob:
        """A job to enqueue, checked; nothing has been written when this raises."""
        handler = self.find_plain(job)
        length = checked_duration("window", window)
        if key is None and window != WINDOW:
            raise UsageError(
                "window= is how long key= is known: give key= as well, or leave it out"
            )
        wait, moment = checked_start(delay, at)
        return NewJob(
            self.host.new_id(),
            handler.name,
            handler.queue if queue is None else checked_queue(queue),
            payload_bytes(payload),
            wait,
            moment,
            checked_priority(priority),
            handler.attempts,
            None if key is None else checked_key(job_scope(handler.name), key),
            length,
        )

    def new_many(
        self, job: object, payloads: object, *, keys: object = None, **options: Any
    ) -> list[NewJob]:
        """Many jobs of one handler."""
        given = checked_batch("payloads", payloads)
        names = [None] * len(given) if keys is None else checked_batch("keys", keys)
        if len(names) != len(given):
            raise UsageError(
                f"there are {len(given)} payloads and {len(names)} keys: give one for each"
            )
        jobs = [
            self.new(job, payload, key=key, **options)
            for payload, key in zip(given, names, strict=True)
        ]
        digests = {one.key.digest for one in jobs if one.key is not None}
        if keys is not None and len(digests) != len(jobs):
            raise UsageError(
                "two of these keys are the same, or one is None: give each job its own"
            )
        return jobs


class Registries(NamedTuple):
    """What an app registered: what its handlers can enqueue and send."""

    jobs: JobRegistry
    outbox: OutboxRegistry


def checked_batch(what: str, values: object) -> list[Any]:
    """A batch as a list."""
    iterable: Iterable[Any]
    try:
        if isinstance(values, str | bytes | dict):
            raise TypeError
        iterable = iter(values)  # type: ignore[call-overload]
    except TypeError:
        raise UsageError(f"{what} must be a list, not {kind(values)}") from None
    batch = list(islice(iterable, MOST_JOBS + 1))  # it may never end
    if len(batch) > MOST_JOBS:
        raise UsageError(f"a batch has at most {MOST_JOBS:,} jobs, this one has more: split it")
    return batch


def checked_priority(priority: object) -> int:
    """A priority; the smallest number runs first."""
    whole = isinstance(priority, int) and not isinstance(priority, bool)
    if not whole or not MOST_URGENT <= priority <= LEAST_URGENT:  # type: ignore[operator]
        raise UsageError(
            f"priority must be a whole number from {MOST_URGENT} (first) to {LEAST_URGENT} (last)"
        )
    return priority  # type: ignore[return-value]


def payload_bytes(payload: object) -> bytes:
    """A payload as JSON; refused if it would come back as something else."""
    return json_bytes.encode(payload, "payload")
