"""The options of an app's verbs: their names and types, and what is refused before anything runs.

A TypedDict names the keywords that several verbs share, once: type checkers and editors read them
from ``**options: Unpack[…]``, and `show_keywords` shows them in `help()`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypedDict

from duly.core.clock import MICROSECOND
from duly.core.errors import UsageError
from duly.core.exports import UPGRADING
from duly.core.retry import Backoff
from duly.core.validation import checked_count, checked_duration, kind
from duly.jobs.handlers import (
    INLINE_TIMEOUT,
    JOB_ATTEMPTS,
    LEAST_IN_BATCH,
    LOCKING_TIMEOUT,
    MOST_IN_BATCH,
    QUEUE,
    TIMEOUT,
    checked_queue,
    handler_of,
)
from duly.jobs.order import order_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from duly.app.process import Process
    from duly.core.versions import Tie
    from duly.inbox.route import Route
    from duly.jobs.handlers import Handler
    from duly.service.service_thread import Until
    from duly.webhooks.source import MissingId, Parse, ReplayedBody
    from duly.webhooks.strict_json import Limits

MOST_ATTEMPTS = 1000
LONGEST_TIMEOUT = timedelta(days=1)
# Verbs that an app had itself, before there was ``app.jobs``.
MOVED_TO_JOBS = {name: f"jobs.{name}" for name in ("dead", "replay", "discard", "resolve", "stats")}
# Options of `Duly.source` that were renamed.
RENAMED = {"keep": "window", "bodies": "body_retention", "limit": "max_body"}


class HandlerOptions(TypedDict, total=False):
    """What `Duly.job`, `Duly.on` and `Duly.cron` have in common; `Duly.job` explains each."""

    name: str | None
    queue: str
    attempts: int
    timeout: timedelta | None
    backoff: Backoff


class PlainJobOptions(HandlerOptions, total=False):
    """The options of `Duly.job`, which explains each."""

    many: int | None
    order: tuple[str, str] | None
    tie: Tie | None


class SourceOptions(TypedDict, total=False):
    """How strictly a source is read; `Source` explains each."""

    url: str | None
    tolerance: timedelta | Literal["provider"] | None
    missing_id: MissingId
    parse: Parse
    replayed_body: ReplayedBody
    legacy: bool
    limits: Limits


class WorkOptions(TypedDict, total=False):
    """The options of `Duly.work`, which explains each."""

    until: Until
    concurrency: int
    queues: Mapping[str, int] | Iterable[str] | None
    lease: timedelta
    grace: timedelta


class RelayOptions(TypedDict, total=False):
    """The options of `Duly.relay`, which explains each."""

    until: Until
    concurrency: int
    per_destination: int
    lease: timedelta | None
    grace: timedelta


class ReceiveOptions(TypedDict, total=False):
    """The options of `Duly.receive`."""

    method: str
    url: str | None
    remote: str | None


class JobFilters(TypedDict, total=False):
    """Which dead jobs are meant; `JobAdmin.dead` explains each."""

    source: str | None
    type: str | None
    name: str | None
    since: datetime | None
    until: datetime | None


class MessageFilters(TypedDict, total=False):
    """Which dead messages are meant; `OutboxAdmin.dead` explains each."""

    destination: str | None
    since: datetime | None
    until: datetime | None


def refuse_renamed(options: Iterable[str]) -> None:
    """Refuse an option of `Duly.source` under the name that it had before."""
    for name in options:
        if name in RENAMED:
            raise UsageError(f"app.source({name}=…) is now {RENAMED[name]}=: {UPGRADING}")


def checked_switch(what: str, value: object) -> bool:
    """Yes or no."""
    if not isinstance(value, bool):
        raise UsageError(f"{what} must be True or False, not {kind(value)}")
    return value


def checked_until(until: object) -> Until:
    """When a worker or a relay ends."""
    if until not in ("idle", "stopped"):
        raise UsageError('until must be "idle" or "stopped"')
    return until


def handler_from(
    call: object,
    process: Process,
    *,
    name: str | None = None,
    queue: object = QUEUE,
    attempts: object = JOB_ATTEMPTS,
    timeout: object = None,
    backoff: object = Backoff(),  # it cannot be changed
    many: object = None,
    order: object = None,
    tie: object = None,
) -> Handler:
    """The handler that a function becomes, with its options checked."""
    most = checked_many(many)
    handler = handler_of(call, name, bulk=most is not None)
    if not isinstance(backoff, Backoff):
        raise UsageError(f"backoff must be a duly.Backoff(…), not {kind(backoff)}")
    if "tx" in handler.wants:
        refuse_other_mode(handler, process)
    return replace(
        handler,
        queue=checked_queue(queue),
        attempts=checked_count("attempts", attempts, most=MOST_ATTEMPTS),
        timeout=checked_timeout(timeout, handler, process),
        backoff=backoff,
        order=order_of(order, tie),
        many=most,
    )


def checked_many(many: object) -> int | None:
    """How many jobs one call takes at most; None for a handler of one."""
    if many is None:
        return None
    whole = isinstance(many, int) and not isinstance(many, bool)
    if not whole or not LEAST_IN_BATCH <= many <= MOST_IN_BATCH:  # type: ignore[operator]
        raise UsageError(
            "many is how many jobs the handler takes in one transaction, a whole number from "
            f"{LEAST_IN_BATCH} to {MOST_IN_BATCH:,}: leave it out for a handler of one job, "
            "def sell(job, tx)"
        )
    return many  # type: ignore[return-value]


def refuse_job_options(
    options: Mapping[str, object], names: Iterable[str], decorator: str, instead: str
) -> None:
    """Refuse options of plain jobs on a handler of events or of a schedule."""
    for name in names:
        if name in options:
            raise UsageError(f"{name}= is for @app.job, not for {decorator}: {instead}")


def refuse_refetch(options: Mapping[str, object]) -> None:
    """Refuse ``refetch=`` on a plain job."""
    if "refetch" in options:
        raise UsageError(
            "refetch= is for @app.on, which asks the source of an event for its current state: in "
            "a job, ask before you enqueue it, or in a handler without tx that enqueues this one"
        )


def checked_timeout(timeout: object, handler: Handler, process: Process) -> int:
    """How long one run may take, in microseconds."""
    if timeout is not None:
        length = checked_duration("timeout", timeout, least=timedelta(milliseconds=1))
        if length > LONGEST_TIMEOUT // MICROSECOND:
            raise UsageError("timeout must be at most a day: split the work into several jobs")
        return length
    locks = "tx" in handler.wants and not process.store.capabilities.concurrent_writers
    return (LOCKING_TIMEOUT if locks else TIMEOUT) // MICROSECOND


def refuse_other_mode(handler: Handler, process: Process) -> None:
    """Refuse a sync handler where the ORM's transactions are async, and the reverse."""
    begin = process.begin
    if begin is not None and handler.mode != begin.mode:
        raise UsageError(
            f"handler {handler.name} is {handler.mode}, and begin= opens {begin.mode} "
            f"transactions: make it {'async def' if begin.mode == 'async' else 'def'}"
        )


def refuse_duplicate_name(route: Route, handler: Handler) -> None:
    """Refuse a second function under a name that the database knows the first by."""
    known = {one.name: one for one in route.handlers.all()}.get(handler.name)
    if known is not None and known.call != handler.call:
        raise UsageError(
            f"source {route.name} has a handler {handler.name} already: give this one name="
        )


def refuse_inline(route: Route, handler: Handler, process: Process) -> None:
    """Refuse a handler that cannot run inside the accepting transaction of its source."""
    if "job" in handler.wants:
        raise UsageError(
            f"handler {handler.name} asks for job, and source {route.name} is inline: there is no "
            "job, only the accepting transaction. Ask for event and tx"
        )
    if handler.order is not None or handler.refetch is not None:
        raise UsageError(
            f"handler {handler.name} has order= or refetch=, and source {route.name} is inline: "
            "these are for handlers that run as jobs. Inline, ask tx.newer(…)"
        )
    refuse_other_mode(handler, process)
    others = {one.mode for one in route.handlers.all()} - {handler.mode}
    if others:
        raise UsageError(
            f"handler {handler.name} is {handler.mode} and the others of inline source "
            f"{route.name} are {others.pop()}: they share one transaction, make them the same"
        )


def with_inline_timeout(handler: Handler) -> Handler:
    """The handler with the timeout of an inline source, whose sender waits for the answer."""
    return replace(handler, timeout=min(handler.timeout, INLINE_TIMEOUT // MICROSECOND))
