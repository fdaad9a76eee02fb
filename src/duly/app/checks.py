"""What an application refuses when it is put together, before anything can arrive."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from duly.core.clock import MICROSECOND
from duly.core.errors import UsageError
from duly.core.validation import kind
from duly.jobs.handlers import INLINE_TIMEOUT

if TYPE_CHECKING:
    from duly.inbox.forget import Forgotten
    from duly.inbox.route import Route
    from duly.jobs.handlers import Handler
    from duly.service.service_thread import Until
    from duly.stores.orm.begin import Begin


def checked_switch(what: str, value: object) -> bool:
    """Yes or no."""
    if not isinstance(value, bool):
        raise UsageError(f"{what} must be True or False, not {kind(value)}")
    return value


def refuse_duplicate_name(route: Route, handler: Handler) -> None:
    """Refuse a second function under a name that the database knows the first by."""
    known = {one.name: one for one in route.handlers.all()}.get(handler.name)
    if known is not None and known.call != handler.call:
        raise UsageError(
            f"source {route.name} has a handler {handler.name} already: give this one name="
        )


def refuse_inline(route: Route, handler: Handler, begin: Begin | None) -> None:
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
    if begin is not None:
        refuse_other_mode(handler, begin)
    others = {one.mode for one in route.handlers.all()} - {handler.mode}
    if others:
        raise UsageError(
            f"handler {handler.name} is {handler.mode} and the others of inline source "
            f"{route.name} are {others.pop()}: they share one transaction, make them the same"
        )


def with_inline_timeout(handler: Handler) -> Handler:
    """The handler with the timeout of an inline source, whose sender waits for the answer."""
    return replace(handler, timeout=min(handler.timeout, INLINE_TIMEOUT // MICROSECOND))


def with_handlers(done: Forgotten, route: Route) -> Forgotten:
    """What was forgotten, with the handlers that the next delivery will run."""
    parked = done.too_old and route.keep is not None
    again = () if parked else route.handlers.matching(done.type)
    return replace(done, handlers=tuple(handler.name for handler in again))


def refuse_other_mode(handler: Handler, begin: Begin) -> None:
    """Refuse a handler whose colour is not that of the ORM's transactions."""
    if handler.mode != begin.mode:
        raise UsageError(
            f"handler {handler.name} is {handler.mode}, and begin= opens {begin.mode} "
            f"transactions: make it {'async def' if begin.mode == 'async' else 'def'}"
        )


def loop_is_running() -> bool:
    """Whether this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def checked_until(until: object) -> Until:
    """When a worker or a relay ends."""
    if until not in ("idle", "stopped"):
        raise UsageError('until must be "idle" or "stopped"')
    return until
