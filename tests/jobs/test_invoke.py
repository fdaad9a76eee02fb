"""Handlers run one after the other in the open transaction, and one that fails ends them all."""

import gc
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import duly
from duly.core.session import OpenedTransaction
from duly.jobs.handlers import handler_of
from duly.jobs.invoke import HandlerFailed, run_in_transaction
from duly.jobs.registry import JobRegistry, Registries
from duly.outbox.registry import OutboxRegistry

# No handler here asks for a statement.
NO_SESSION: Any = None
OPENED = OpenedTransaction(NO_SESSION, None)


async def run(*calls: Callable[..., Any]) -> None:
    """Run handlers that are named by their place."""
    handlers = [handler_of(call, str(place)) for place, call in enumerate(calls, start=1)]
    await run_in_transaction(
        handlers, "the event", OPENED, Registries(JobRegistry(), OutboxRegistry())
    )


async def test_a_handler_that_raises_is_told_by_its_name_with_the_cause() -> None:
    def failing(event: object) -> None:
        raise KeyError(event)

    async def failing_later(event: object) -> None:
        raise KeyError(event)

    for call in (failing, failing_later):
        with pytest.raises(HandlerFailed, match="handler 1 failed") as caught:
            await run(call)
        assert caught.value.name == "1"
        assert isinstance(caught.value.__cause__, KeyError)


async def test_handlers_of_both_colours_run_in_their_order() -> None:
    ran: list[object] = []

    def first(event: object) -> None:
        ran.append(event)

    async def second() -> None:
        ran.append("second")

    await run(first, second)
    assert ran == ["the event", "second"]


async def test_the_first_handler_that_raises_ends_them_all() -> None:
    ran: list[str] = []

    def good(event: object) -> None:
        ran.append("good")

    def bad(event: object) -> None:
        raise RuntimeError

    with pytest.raises(HandlerFailed, match="handler 2 failed"):
        await run(good, bad, good)
    assert ran == ["good"]


async def test_a_blocking_handler_that_returns_something_to_await_is_told_to_be_async() -> None:
    """And what it returned is closed, or the interpreter would warn of it later."""

    async def later() -> None: ...

    def undecided(event: object) -> Any:
        return later()

    async def told() -> BaseException | None:
        with pytest.raises(HandlerFailed) as caught:
            await run(undecided)
        return caught.value.__cause__

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        cause = await told()
        assert isinstance(cause, duly.errors.UsageError)
        assert "make it `async def`" in str(cause)
        cause.__traceback__ = None
        gc.collect()
    assert [str(one.message) for one in seen] == []


async def test_an_interrupt_is_no_failure_of_the_handler() -> None:
    def interrupted(event: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await run(interrupted)


async def test_an_exit_in_a_handler_ends_no_server() -> None:
    def leaving(event: object) -> None:
        sys.exit(3)

    with pytest.raises(HandlerFailed) as caught:
        await run(leaving)
    assert isinstance(caught.value.__cause__, SystemExit)
