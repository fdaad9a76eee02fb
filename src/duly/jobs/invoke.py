"""Calling handlers: inside a transaction that is already open, or without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.core.errors import UsageError
from duly.core.functions import refuse_unawaited
from duly.core.retry import Outcome
from duly.jobs.outcome import as_problem
from duly.jobs.tx import AsyncTx, Tx

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duly.core.session import OpenedTransaction
    from duly.jobs.handlers import Handler
    from duly.jobs.registry import Registries


class HandlerFailed(Exception):  # a fact about the user's code, not an error of duly's
    """A handler raised; its transaction was rolled back. The cause is the handler's error."""

    def __init__(self, name: str) -> None:
        super().__init__(f"handler {name} failed; its transaction was rolled back")
        self.name = name


class Unfinished(HandlerFailed):
    """The handlers returned, and what they wrote could not be committed."""

    def __init__(self) -> None:
        Exception.__init__(
            self, "what the handlers wrote could not be committed; it was rolled back"
        )


class Overdue(HandlerFailed):
    """The handlers took longer than their timeout; their transaction was rolled back."""

    def __init__(self, seconds: float) -> None:
        Exception.__init__(
            self, f"the handler ran longer than its timeout of {seconds:g} s; it was rolled back"
        )


async def run_in_transaction(
    handlers: Sequence[Handler], event: object, opened: OpenedTransaction, registries: Registries
) -> None:
    """Run each handler in turn in the open transaction; the first that raises ends them all."""
    for handler in handlers:
        await run_one_in_transaction(handler, opened, registries, event=event)


async def run_one_in_transaction(
    handler: Handler, opened: OpenedTransaction, registries: Registries, **offered: object
) -> None:
    """Run one handler in the open transaction; anything but success is `HandlerFailed`."""
    tx = AsyncTx(opened, registries) if handler.mode == "async" else Tx(opened, registries)
    try:
        with tx.lasting(f"handler {handler.name}"):
            await call_handler(handler, tx=tx, **offered)
    except (Exception, SystemExit) as problem:  # sys.exit() in a handler ends no server
        raise HandlerFailed(handler.name) from problem


async def call_handler(handler: Handler, **offered: object) -> None:
    """Call a handler with what it asks for; an outcome that it returns is raised."""
    wanted = {name: value for name, value in offered.items() if name in handler.wants}
    result: Any = handler.call(**wanted)
    if handler.mode == "async":
        result = await result
    if result is None:
        return
    if handler.mode == "sync":
        refuse_unawaited(result, f"handler {handler.name}")
    outcome = as_problem(result)
    if outcome is not None:
        raise outcome
    if handler.many is not None:
        refuse_several_outcomes(result, handler.name)


def refuse_several_outcomes(result: object, name: str) -> None:
    """Refuse an outcome for each job of a batch: one transaction has one end."""
    each: Iterable[object] = ()
    if isinstance(result, dict):
        each = result.values()
    elif isinstance(result, list | tuple | set | frozenset):
        each = result
    if any(isinstance(one, Outcome) for one in each):
        raise UsageError(
            f"handler {name} returned an outcome for some of its jobs, and their transaction is "
            "one: return or raise the outcome itself. Then all of it is rolled back, each job runs "
            "alone, and its own outcome counts"
        )
