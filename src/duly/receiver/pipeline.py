"""From a request that was read to what is to be done with it: the same for every server."""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from duly.core.errors import DulyError, InProgress, Rejected, StoreUnavailable
from duly.inbox.accept_inline import InlineWork
from duly.inbox.new_event import Status
from duly.jobs.invoke import HandlerFailed
from duly.receiver.commit_queue import RETRY_AFTER, Overloaded
from duly.receiver.log_throttle import LogThrottle
from duly.receiver.new_events import delivery_of, event_of, new_events_of
from duly.receiver.rejections import Rejection
from duly.receiver.request import decompress_body
from duly.receiver.responses import (
    Fault,
    RequestRefused,
    batch_reply,
    event_reply,
    handshake_reply,
    refusal_reply,
    rejection_reply,
)
from duly.receiver.too_old import explain_too_old, first_too_old
from duly.webhooks.verify import answer_handshake, verify

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duly.inbox.new_event import EventOutcome, NewEvent
    from duly.inbox.route import Route
    from duly.receiver.new_events import RoutedDelivery
    from duly.receiver.request import Request
    from duly.receiver.responses import Reply
    from duly.webhooks.source import Source

    Note = Callable[[Rejection], None]

logger = logging.getLogger("duly")
LOG_THROTTLE = LogThrottle(logger)
# What a delivery of several events is called: the first of these that one of them is.
RANKS = (Status.ACCEPTED, Status.CONFLICT, Status.TOO_OLD, Status.IGNORED, Status.DUPLICATE)


def allows(route: Route, method: str) -> bool:
    """Whether a method means anything here: POST, and GET where a provider asks that way."""
    return method == "POST" or (method == "GET" and route.answers_handshakes)


def prepare_delivery(
    route: Route, request: Request, body: bytes, now: float, note: Note
) -> tuple[RoutedDelivery, list[NewEvent]]:
    """A genuine delivery and its events; `RequestRefused` has the answer to anything else."""
    delivery = verify_request(route, request, body, now, note)
    arrivals = new_events_of(delivery)
    if not route.inline:
        delivery.verified.let_go()  # or much JSON would be held by many that wait for a commit
    return delivery, arrivals


def verify_request(
    route: Route, request: Request, body: bytes, now: float, note: Note
) -> RoutedDelivery:
    """Ask the gate. What is not genuine, and what is only a question, is answered at once.

    ``note`` is told of what is not genuine, for the log; the answer is the same without it.
    """
    source, url = route.source, url_called(route.source, request)
    raw = decompress_body(body, request.encoding, route.max_body)
    try:
        if route.answers_handshakes:
            reply = answer_handshake(
                source, request.headers, raw, now=now, url=url, method=request.method
            )
            if reply is not None:
                raise RequestRefused(handshake_reply(reply))
        if request.method != "POST":
            raise RequestRefused(method_not_allowed(route))
        verified = verify(source, request.headers, raw, now=now, url=url, method=request.method)
        if verified.handshake is not None:
            raise RequestRefused(handshake_reply(verified.handshake))
        return delivery_of(route, verified, request.remote, now)
    except Rejected as problem:
        note(Rejection(source, request.headers, raw, url, request.method, now, problem))
        raise RequestRefused(rejection_reply(problem)) from None


def url_called(source: Source, request: Request) -> str:
    """The URL that the sender called: a proxy changes its origin and path, and never its query."""
    if source.url is None:
        return request.url
    query = urlsplit(request.url).query
    if not query or urlsplit(source.url).query:
        return source.url
    return f"{source.url}?{query}"


def method_not_allowed(route: Route) -> Reply:
    """The answer to a method that means nothing here."""
    allow = {"allow": "GET, POST" if route.answers_handshakes else "POST"}
    return refusal_reply(Fault.METHOD_NOT_ALLOWED, "deliveries are POSTed here", allow)


def works_of(delivery: RoutedDelivery, arrivals: Sequence[NewEvent]) -> list[InlineWork]:
    """The arrivals of an inline source, with the handlers that run in their transaction."""
    handlers = delivery.route.handlers
    return [
        InlineWork(
            arrival,
            event_of(delivery, arrival, facts),
            handlers.matching(facts.type),
            delivery.route.jobs,
        )
        for arrival, facts in zip(arrivals, delivery.verified.items, strict=True)
    ]


def acknowledge_delivery(
    delivery: RoutedDelivery, arrivals: Sequence[NewEvent], outcomes: Sequence[EventOutcome]
) -> Reply:
    """The answer after the commit."""
    success = delivery.verified.provider.success
    reason = log_too_old(delivery, arrivals, outcomes)
    if len(outcomes) == 1:
        outcome = outcomes[0]
        return event_reply(
            success,
            outcome.status.value,
            arrivals[0].event_id,
            body_differs=outcome.body_differs,
            reason=reason,
        )
    counts = {
        rank.value: n
        for rank in RANKS
        if (n := sum(outcome.status is rank for outcome in outcomes))
    }
    old = first_too_old(arrivals, outcomes)
    which = "" if old is None else f"event {old.event_id!r:.80}: "
    return batch_reply(success, counts, next(iter(counts)), which + reason)


def log_too_old(
    delivery: RoutedDelivery, arrivals: Sequence[NewEvent], outcomes: Sequence[EventOutcome]
) -> str:
    """The reason for the reply, and a line in the log, where an event is parked for its age.

    One line for each source in a while: a provider may send a whole backlog.
    """
    arrival = first_too_old(arrivals, outcomes)
    if arrival is None:
        return ""
    reason = explain_too_old(delivery, arrival)
    LOG_THROTTLE.warning(
        f"event {arrival.event_id!r:.80} of {delivery.route.name} is too_old: {reason}",
        about=f"too_old {delivery.route.name}",
    )
    return reason


def loggable_error(problem: Exception) -> str:
    """An error for the log: after its first line a driver may show rows, bodies included."""
    if isinstance(problem, DulyError):
        return str(problem)
    said = str(problem).splitlines() or [""]
    where = "".join(traceback.format_tb(problem.__traceback__))
    return f"{type(problem).__name__}: {said[0]}\n{where}"


def reply_to_failure(route: Route, problem: Exception, event: str | None) -> Reply:
    """The answer where nothing was committed, or nobody knows: the sender is to come again."""
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
    # The sender learns no more than that; the log tells why.
    told = f"a delivery to {route.name} could not be written, and was answered 503"
    LOG_THROTTLE.error(f"{told}, so that its sender comes again: {loggable_error(problem)}")
    return refusal_reply(
        Fault.STORE_UNAVAILABLE, "the delivery could not be written: send it again", again
    )
