"""External steps of a job: the intent is written before, the outcome after.

An intent without an outcome is an unknown effect. Each write repeats the lease of the job, so a
worker that lost it writes nothing and gets `LeaseLost`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from duly.core import json_bytes
from duly.core.defaults import WAIT
from duly.core.errors import InProgress, NotStorable, StoreUnavailable, UsageError
from duly.core.keys import as_bytes, digest
from duly.core.retry import Dead
from duly.core.validation import checked_scope, kind
from duly.jobs.lease import lease_lost_error
from duly.jobs.statements import EFFECTS_INTEND, EFFECTS_READ, EFFECTS_UNDO, EFFECTS_WRITE

if TYPE_CHECKING:
    from duly.core.host import Deadline
    from duly.core.json_bytes import Json
    from duly.core.session import Operation, Row, Runner, Session, Value
    from duly.jobs.lease import LeasedJob

# Each try waits for seconds, for a connection or for a reply.
TRIES = 4
# Seconds to wait for a lock before a step; then the job is tried later.
BEFORE = 30.0
# And after a step that was taken, however little time its handler has left.
AFTER = 8.0
T = TypeVar("T")
# Stands for a result that could not be stored: no JSON is empty.
NOT_KEPT = b""
Choice = Literal["retry", "park"]
Unknown = Choice | Callable[[str], Any]


def owner_parts(scope: str, job: str, event_id: str | None, handler: str) -> tuple[bytes, ...]:
    """What names the effects of a job: its id, or for an event's job the event and the handler.

    Those stay the same after the event was forgotten and received again.
    """
    if event_id is None:
        return b"job", as_bytes(job)
    return b"event", as_bytes(scope), as_bytes(event_id), as_bytes(handler)


def effects_digest(scope: str, job: str, event_id: str | None, handler: str) -> bytes:
    """The digest under which the effects of a job are kept."""
    return digest(b"effect", *owner_parts(scope, job, event_id, handler))


class EffectStep(NamedTuple):
    """One external step of one job."""

    leased: LeasedJob
    digest: bytes
    name: str
    key: str
    # When the time of its handler is over.
    deadline: Deadline

    def name_values(self) -> dict[str, Value]:
        """The parameters that name it."""
        return {"scope": self.leased.scope, "digest": self.digest, "name": self.name}

    def fence(self) -> dict[str, Value]:
        """The parameters of the lease under which it is taken."""
        lease = self.leased.lease
        return {"job": lease.id, "token": lease.token, "epoch": lease.epoch}


class EffectOptions(NamedTuple):
    """How a step is taken, and what to do where its outcome is unknown."""

    call: Callable[[str], Any]
    unknown: Unknown
    not_done: tuple[type[Exception], ...]

    def as_async(self) -> EffectOptions:
        """These options with sync functions wrapped as async ones that never wait."""
        check = self.unknown
        return EffectOptions(
            as_async_call(self.call),
            check if isinstance(check, str) else as_async_call(check),
            self.not_done,
        )


def as_async_call(call: Callable[[str], Any]) -> Callable[[str], Awaitable[Any]]:
    """Wrap a sync function as an async one that never waits."""

    async def call_blocking(key: str) -> Any:
        result = call(key)
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            raise UsageError("an effect of a sync handler must not be awaited: write `def`")
        return result

    return call_blocking


def checked_options(name: object, call: object, unknown: object, not_done: object) -> EffectOptions:
    """Check the arguments of ``job.effect``."""
    checked_scope(name)
    if not callable(call):
        raise UsageError(f"an effect is a function of its idempotency key, not {kind(call)}")
    refuse_parameters(call)
    if unknown not in ("retry", "park") and not callable(unknown):
        raise UsageError("unknown must be 'retry', 'park' or a function of the idempotency key")
    errors = not_done if isinstance(not_done, tuple) else (None,)
    if not all(isinstance(one, type) and issubclass(one, Exception) for one in errors):
        raise UsageError("not_done must be a tuple of exception types")
    return EffectOptions(call, unknown, errors)


def refuse_parameters(call: Callable[..., Any]) -> None:
    """Refuse a function that does not take the key, before the intent is written."""
    try:
        inspect.signature(call).bind("key")
    except TypeError:
        raise UsageError(
            "an effect gets its idempotency key as its one argument: lambda key: charge(key, 100)"
        ) from None
    except ValueError:  # a function without a signature
        return


async def perform(runner: Runner, step: EffectStep, how: EffectOptions) -> Json:
    """Take a step unless its outcome is known."""
    known = await record_intent(runner, step)
    if known is not None and known["state"] == "done":
        return stored_result(step, known["result"])
    if known is not None:
        result = await resolve_unknown(step, how)
        if result is not None:
            return await record_done(runner, step, result)
    # An earlier attempt may have taken it, unless there was none or a check says that it has not.
    first = known is None or not isinstance(how.unknown, str)
    try:
        answer = how.call(step.key)
        result = await answer if inspect.isawaitable(answer) else answer
    except Exception as problem:
        certain = first and isinstance(problem, how.not_done)
        await write_with_retries(
            runner, step, lambda session: record_failed_step(session, step, certain=certain)
        )
        raise
    return await record_done(runner, step, result)


def stored_result(step: EffectStep, stored: bytes | None) -> Json:
    """The result of a step that was taken before."""
    if stored is None:
        return None
    if bytes(stored) == NOT_KEPT:
        raise Dead(
            f"effect {step.name!r} happened (key {step.key}), and its result could not be stored: "
            f"say what it was with app.jobs.resolve({step.leased.id!r}, {step.name!r}, done=True, "
            "result=...), let the call return JSON, such as an id, then replay the job"
        )
    return json_bytes.decode(stored)


async def record_failed_step(session: Session, step: EffectStep, *, certain: bool) -> None:
    """Record an unknown outcome, or delete the intent if the step was certainly not taken."""
    if certain:
        await delete_intent(session, step)
    else:
        await write_outcome(session, step, "unknown", None)


async def resolve_unknown(step: EffectStep, how: EffectOptions) -> Any:
    """Resolve an unknown outcome: return its result, or None to take the step again."""
    if how.unknown == "park":
        raise Dead(
            f"it is unknown whether effect {step.name!r} happened (key {step.key}): find out, say "
            f"so with `duly effects resolve` or app.jobs.resolve({step.leased.id!r}, "
            f"{step.name!r}, done=...), then replay the job"
        )
    if how.unknown == "retry":
        return None
    check: Callable[[str], Any] = how.unknown
    answer = check(step.key)
    return await answer if inspect.isawaitable(answer) else answer


async def record_done(runner: Runner, step: EffectStep, result: Any) -> Json:
    """Record that the step was taken. A result that cannot be kept does not undo it."""
    unstorable: NotStorable | None = None
    try:
        stored: bytes | None = json_bytes.encode(result)
    except NotStorable as problem:
        stored, unstorable = NOT_KEPT, problem
    await write_with_retries(
        runner, step, lambda session: write_outcome(session, step, "done", stored)
    )
    if unstorable is not None:
        raise unstorable
    kept: Json = result
    return kept


async def record_intent(runner: Runner, step: EffectStep) -> Row | None:
    """Write the intent, and wait for a busy database for up to half of the handler's time.

    The other half is for the step itself: a run that took too long would be an error.
    """
    left = step.deadline.seconds_left()
    return await run_waiting_for_lock(runner, step, IntentWriter(step), min(left / 2, BEFORE))


async def write_with_retries(runner: Runner, step: EffectStep, operation: Operation[None]) -> None:
    """Write an outcome with several tries: the step was taken.

    A lock is waited for as long as the handler may run.
    """
    for left in reversed(range(TRIES)):
        try:
            await run_waiting_for_lock(
                runner, step, operation, max(step.deadline.seconds_left(), AFTER)
            )
        except StoreUnavailable:
            if not left:
                raise
        else:
            return


async def run_waiting_for_lock(
    runner: Runner, step: EffectStep, operation: Operation[T], seconds: float
) -> T:
    """Wait for the lock, then write; after that time raise `InProgress` with the job's lease."""
    deadline = step.deadline.after(seconds)
    while True:
        wait = min(WAIT, timedelta(seconds=max(deadline.seconds_left(), 0.0)))
        try:
            return await runner.run(operation, wait=wait)
        except InProgress as problem:
            if deadline.seconds_left() <= 0:
                problem.lease = step.leased.lease
                raise


class IntentWriter:
    """Writes the intent, and recognises it after a COMMIT whose reply was lost."""

    def __init__(self, step: EffectStep) -> None:
        self._step = step
        self._made = False

    async def __call__(self, session: Session) -> Row | None:
        """Return what is known of the step; None if this call is the first to intend it."""
        known = await write_intent(session, self._step)
        if known is None:
            self._made = True
        elif self._made and known["state"] == "intended":
            return None
        return known


async def write_intent(session: Session, step: EffectStep) -> Row | None:
    """Write the intent; return the step's row if there is one already."""
    made = await session.rows(EFFECTS_INTEND, **step.name_values(), **step.fence(), key=step.key)
    if made:
        return None
    [known] = await session.rows(EFFECTS_READ, **step.name_values(), **step.fence())
    if not known["held"]:
        raise lease_lost_error(step.leased)
    if known["state"] is None:  # an operator cleared it between the two statements
        raise UsageError(
            f"effect {step.name} was changed while it was looked at: run the job again"
        )
    return known


async def write_outcome(
    session: Session, step: EffectStep, state: str, result: bytes | None
) -> None:
    """Write an outcome."""
    rows = await session.rows(
        EFFECTS_WRITE, **step.name_values(), **step.fence(), state=state, result=result
    )
    if rows:
        return
    [known] = await session.rows(EFFECTS_READ, **step.name_values(), **step.fence())
    if not known["held"] or known["state"] != "done":  # a rerun after a lost reply finds its own
        raise lease_lost_error(step.leased)


async def delete_intent(session: Session, step: EffectStep) -> None:
    """Delete the intent of a step that was certainly not taken."""
    if not await session.rows(EFFECTS_UNDO, **step.name_values(), **step.fence()):
        [known] = await session.rows(EFFECTS_READ, **step.name_values(), **step.fence())
        if not known["held"]:
            raise lease_lost_error(step.leased)
