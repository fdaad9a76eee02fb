"""The job as its handler sees it, sync and async."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar, cast

from duly.core.clock import from_microseconds
from duly.core.errors import UsageError
from duly.core.exports import export
from duly.core.host import HOST
from duly.core.keys import as_bytes, digest
from duly.core.onestep import finish
from duly.core.validation import checked_scope, kind
from duly.jobs.effects import (
    EffectOptions,
    EffectStep,
    checked_options,
    effects_digest,
    owner_parts,
    perform,
)
from duly.jobs.tx import refuse_inside
from duly.jobs.unawaited import AwaitTracker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from datetime import datetime

    from duly.core.host import Deadline
    from duly.core.json_bytes import Stored
    from duly.core.session import Runner
    from duly.jobs.effects import Choice
    from duly.jobs.foreign_types import AsyncClient, Client
    from duly.jobs.lease import LeasedJob

T = TypeVar("T")
# Seconds for a job without a deadline: one that is not run by a worker.
UNBOUNDED = 60.0
NOT_DONE: tuple[type[Exception], ...] = ()


class BaseJob:
    """What `Job` and `AsyncJob` have in common: one run, under one lease."""

    def __init__(
        self,
        leased: LeasedJob,
        handler: str,
        event_id: str | None,
        runner: Runner,
        caller: Callable[[Any], Any] | None = None,
        *,
        deadline: Deadline | None = None,
    ) -> None:
        self._leased = leased
        # When the time of the handler is over.
        self._deadline = deadline or HOST.deadline_in(UNBOUNDED)
        self._handler = handler
        self._runner = runner
        self._caller = caller
        self._http: Any = None
        self.id = leased.id
        self.name = leased.name
        self.queue = leased.queue
        # 1 in the first run, 2 in the one after an error.
        self.attempt = leased.attempts + 1
        self.max_attempts = leased.max_attempts
        self.rescues = leased.rescues
        self.event_id = event_id

    @property
    def payload(self) -> Any:
        """What was enqueued; None for a job that handles an event."""
        stored = self._leased.payload
        return None if stored is None else json.loads(stored)

    @property
    def created_at(self) -> datetime:
        """When it was enqueued, or last replayed."""
        return from_microseconds(self._leased.created_at)

    def key(self, name: str) -> str:
        """An idempotency key for one external step, the same in every attempt, rescue and replay.

        For an event's job it is the same after `forget`, too: the event is what it was.
        """
        return digest(*owner_parts(*self._effect_owner), as_bytes(checked_step(name))).hex()

    def _client(self) -> Any:
        if self._http is None:
            if self._caller is None:
                raise UsageError("this job has no HTTP client: it is not run by a worker")
            self._http = self._caller(self)
        return self._http

    @property
    def _effect_owner(self) -> tuple[str, str, str | None, str]:
        return self._leased.scope, self.id, self.event_id, self._handler

    def _step(self, name: str) -> EffectStep:
        refuse_inside(
            "job.effect",
            "an effect is recorded in transactions of its own. Make it a job of its own with "
            "tx.enqueue, or a handler without tx",
        )
        key = self.key(name)
        owner = effects_digest(*self._effect_owner)
        return EffectStep(self._leased, owner, name, key, self._deadline)

    def refuse_unkept(self) -> None:
        """Refuse a handler that forgot an ``await``; a sync job has none."""


@export
class Job(BaseJob):
    """The job of a sync handler."""

    @property
    def http(self) -> Client:
        """An HTTP client for this job: httpx's, behind the egress guard and with a deadline.

        A call that may change something takes ``key="charge"``, a name for the step, and carries
        ``job.key("charge")`` as its ``Idempotency-Key``; without a name it is refused. For a
        library that is built on httpx, ``job.http.transport(key="charge")`` is the same.
        """
        return cast("Client", self._client())

    def effect(
        self,
        name: str,
        call: Callable[[str], Stored],
        *,
        unknown: Choice | Callable[[str], Stored | None] = "retry",
        not_done: tuple[type[Exception], ...] = NOT_DONE,
    ) -> Stored:
        """Take one external step, and remember its outcome: a repeat returns what it returned.

        ``call`` gets the idempotency key of the step. The intent is written before it and the
        outcome after it. After a crash in between the outcome is unknown: then it is called again
        with the same key (``"retry"``), or the job is parked for an operator (``"park"``), or a
        function of yours is asked (it gets the key, and returns the result, or None if it did not
        happen). ``not_done`` are errors that say for certain that it did not.
        """
        how = checked_options(name, call, unknown, not_done)
        return cast("Stored", finish(perform(self._runner, self._step(name), how.as_async())))


class AsyncJob(BaseJob):
    """The job of an async handler."""

    def __init__(
        self,
        leased: LeasedJob,
        handler: str,
        event_id: str | None,
        runner: Runner,
        caller: Callable[[Any], Any] | None = None,
        *,
        deadline: Deadline | None = None,
    ) -> None:
        super().__init__(leased, handler, event_id, runner, caller, deadline=deadline)
        self._tracker = AwaitTracker()

    @property
    def http(self) -> AsyncClient:
        """`Job.http` with async calls."""
        return cast("AsyncClient", self._client())

    def effect(
        self,
        name: str,
        call: Callable[[str], Awaitable[Stored]],
        *,
        unknown: Choice | Callable[[str], Awaitable[Stored | None] | Stored | None] = "retry",
        not_done: tuple[type[Exception], ...] = NOT_DONE,
    ) -> Awaitable[Stored]:
        """Take one external step, and remember its outcome: a repeat returns what it returned."""
        how: EffectOptions = checked_options(name, call, unknown, not_done)
        taken = cast("Coroutine[Any, Any, Stored]", perform(self._runner, self._step(name), how))
        return self._tracker.track("job.effect", taken)

    def _track(self, verb: str, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Track work that must be awaited before the handler returns."""
        return self._tracker.track(verb, work)

    def refuse_unkept(self) -> None:
        """Refuse a handler that forgot an ``await``."""
        self._tracker.refuse_unkept()


def checked_step(name: object) -> str:
    """The name of an external step inside its job."""
    if not isinstance(name, str):
        raise UsageError(f"a step of a job is named by a string, not {kind(name)}: write str(…)")
    return checked_scope(name)
