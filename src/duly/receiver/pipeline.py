"""The pipeline of a delivery: verify and build before the commit, the reply after it."""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from duly.core.errors import DulyError, InProgress, Rejected, StoreUnavailable, UsageError
from duly.core.validation import checked_scope, kind
from duly.inbox.new_event import Status, build_new_events
from duly.jobs.invoke import HandlerFailed
from duly.receiver.commit_queue import RETRY_AFTER, Overloaded
from duly.receiver.log_throttle import LogThrottle
from duly.receiver.rejections import Rejection
from duly.receiver.request import decompress_body
from duly.receiver.responses import (
    Fault,
    RequestRefused,
    batch_reply,
    event_reply,
    handshake_reply,
    refusal_error,
    refusal_reply,
    rejection_reply,
)
from duly.webhooks.delivery import Delivery, fields_of
from duly.webhooks.verify import answer_unsigned_handshake, verify_delivery

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duly.inbox.new_event import EventOutcome, NewEvent
    from duly.inbox.route import Route
    from duly.receiver.request import Request
    from duly.receiver.responses import Reply
    from duly.webhooks.event_fields import VerifiedDelivery

    Note = Callable[[Rejection], None]

logger = logging.getLogger("duly")
LOG_THROTTLE = LogThrottle(logger)
# The status of a delivery of several events: the first of these that one of them has.
RANKS = (Status.ACCEPTED, Status.CONFLICT, Status.TOO_OLD, Status.IGNORED, Status.DUPLICATE)


def allows(route: Route, method: str) -> bool:
    """Whether a method means anything here: POST, and GET where a provider asks that way."""
    return method == "POST" or (method == "GET" and route.answers_handshakes)


def verify_request(
    route: Route, request: Request, body: bytes, now: float, note: Note
) -> list[NewEvent]:
    """Verify a request and build the records of its events.

    `RequestRefused` carries the answer to anything else: a forged delivery, a handshake. ``note``
    is told of a forged one, for the log; the answer is the same without it.
    """
    source = route.source
    url = request.url if source.url is None else url_called(source.url, request.url)
    raw = (
        body
        if request.encoding is None
        else decompress_body(body, request.encoding, route.max_body)
    )
    delivery = Delivery(fields_of(request.headers), raw, url, request.method, now)
    try:
        if route.answers_handshakes:
            reply = answer_unsigned_handshake(source, delivery)
            if reply is not None:
                raise RequestRefused(handshake_reply(reply))
        if request.method != "POST":
            raise RequestRefused(method_not_allowed(route))
        verified = verify_delivery(source, delivery)
    except Rejected as problem:
        note(Rejection(source, delivery, problem))
        raise RequestRefused(rejection_reply(problem)) from None
    if verified.handshake is not None:
        raise RequestRefused(handshake_reply(verified.handshake))
    tenant = None if route.tenant is None else resolve_tenant(route, verified)
    return build_new_events(route, verified, tenant, request.remote, now)


def resolve_tenant(route: Route, verified: VerifiedDelivery) -> str:
    """Ask the user's function whose delivery it is; if that fails, the sender is told to retry."""
    try:
        assert route.tenant is not None  # noqa: S101  # asked by the caller
        tenant = route.tenant(verified)
        if not isinstance(tenant, str) or not tenant:
            raise UsageError(f"tenant= must return a string that is not empty, not {kind(tenant)}")
        checked_scope(route.scope(tenant))
    except Exception as problem:
        logger.exception("tenant= of source %s failed", route.name)
        raise refusal_error(
            Fault.TENANT_FAILED, "the receiver could not tell whose this is"
        ) from problem
    return tenant


def url_called(own: str, asked: str) -> str:
    """The URL that the sender called: a proxy changes its origin and path, and never its query."""
    query = urlsplit(asked).query
    return own if not query or urlsplit(own).query else f"{own}?{query}"


def method_not_allowed(route: Route) -> Reply:
    """The answer to a method that means nothing here."""
    allow = {"allow": "GET, POST" if route.answers_handshakes else "POST"}
    return refusal_reply(Fault.METHOD_NOT_ALLOWED, "deliveries are POSTed here", allow)


def acknowledge_delivery(
    route: Route, events: Sequence[NewEvent], outcomes: Sequence[EventOutcome]
) -> Reply:
    """The answer after the commit."""
    success = route.source.provider.success
    parked = None
    for event, outcome in zip(events, outcomes, strict=True):
        if outcome.status is Status.TOO_OLD:
            parked = event
            log_too_old(route, event)
            break
    if len(outcomes) == 1:
        outcome = outcomes[0]
        return event_reply(
            success,
            outcome.status.value,
            events[0].event_id,
            body_differs=outcome.body_differs,
            reason="" if parked is None else parked.reason,
        )
    counts = {
        rank.value: n
        for rank in RANKS
        if (n := sum(outcome.status is rank for outcome in outcomes))
    }
    reason = "" if parked is None else f"event {parked.event_id!r:.80}: {parked.reason}"
    return batch_reply(success, counts, next(iter(counts)), reason)


def log_too_old(route: Route, event: NewEvent) -> None:
    """Warn of an event that is parked for its age.

    One line for each source in a while: a provider may send a whole backlog.
    """
    LOG_THROTTLE.warning(
        f"event {event.event_id!r:.80} of {route.name} is too_old: {event.reason}",
        about=f"too_old {route.name}",
    )


def loggable_error(problem: Exception) -> str:
    """An error for the log: after its first line a driver may show rows, bodies included."""
    if isinstance(problem, DulyError):
        return str(problem)
    said = str(problem).splitlines() or [""]
    where = "".join(traceback.format_tb(problem.__traceback__))
    return f"{type(problem).__name__}: {said[0]}\n{where}"


def reply_to_failure(route: Route, problem: Exception, event: str | None) -> Reply:
    """The answer where nothing was committed, or the outcome is unknown: send it again."""
    return reply_asking_to_retry(route, problem, event)._replace(event=event)


def reply_asking_to_retry(route: Route, problem: Exception, event: str | None) -> Reply:
    """The same, without the event."""
    again = {"retry_after": str(max(1, RETRY_AFTER.seconds))}
    if isinstance(problem, HandlerFailed) and not isinstance(
        problem.__cause__, InProgress | StoreUnavailable
    ):
        logger.error("%s: event %r of %s", problem, event, route.name, exc_info=problem.__cause__)
        return refusal_reply(Fault.HANDLER_FAILED, str(problem), again)
    if isinstance(problem, HandlerFailed):
        assert isinstance(problem.__cause__, Exception)  # noqa: S101  # asked just above
        problem = problem.__cause__
    if isinstance(problem, Overloaded):
        return refusal_reply(Fault.OVERLOADED, str(problem), again)
    if isinstance(problem, InProgress):
        seconds = max(1, round(problem.retry_after.total_seconds()))
        return refusal_reply(
            Fault.HELD,
            "this event, or the database, is being worked on right now: send it again",
            {"retry_after": str(seconds)},
        )
    # The sender learns no more than that; the log says why.
    line = f"a delivery to {route.name} could not be written, and was answered 503"
    LOG_THROTTLE.error(f"{line}, so that its sender comes again: {loggable_error(problem)}")
    return refusal_reply(
        Fault.STORE_UNAVAILABLE, "the delivery could not be written: send it again", again
    )
