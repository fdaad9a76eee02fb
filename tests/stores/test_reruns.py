"""What must not be done twice is not run again where nobody knows how the first run ended."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Literal

import pytest

import duly
from duly.core.defaults import WAIT
from duly.core.session import Runner, Session
from tests.support.inboxes import found
from tests.support.proxies import Cut, Proxy, proxy

Colour = Literal["sync", "async"]


@pytest.fixture
def wire(own_postgres_url: str) -> Iterator[Proxy]:
    with proxy(own_postgres_url) as opened:
        yield opened


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> Colour:
    chosen: Colour = request.param
    return chosen


class Counting:
    """Adds one to a counter, and counts how often it was asked to."""

    def __init__(self) -> None:
        self.runs = 0

    async def __call__(self, session: Session) -> None:
        self.runs += 1
        await session.rows("counters_add", scope="shop", name="accepted", n=1)


@asynccontextmanager
async def a_runner(wire: Proxy, colour: Colour) -> AsyncIterator[Runner]:
    """A store behind a wire that is about to be cut; its connections are open already."""
    async with duly.store(wire.url) as store:
        runner = store.sync_runner if colour == "sync" else store.async_runner
        await runner.run_autocommit(nothing, wait=WAIT)
        yield runner
        store.close()


async def nothing(session: Session) -> None:
    await session.rows("meta_read")


def total(url: str) -> int:
    """What the counter says in the end."""
    with duly.store(url) as store:
        return sum(n for (n,) in found(store, "SELECT n FROM duly_counters"))


async def test_a_transaction_that_may_run_once_is_told_of_its_lost_commit(
    wire: Proxy, own_postgres_url: str, colour: Colour
) -> None:
    operation = Counting()
    async with a_runner(wire, colour) as runner:
        wire.set(Cut.REPLY, "COMMIT")
        with pytest.raises(duly.errors.StoreUnavailable, match="could not be reached"):
            await runner.run(operation, wait=WAIT, after_loss=False)
        assert operation.runs == 1
        await runner.run(operation, wait=WAIT, after_loss=False)
    assert total(own_postgres_url) == 2


async def test_a_transaction_that_knows_its_own_row_is_run_again(
    wire: Proxy, own_postgres_url: str, colour: Colour
) -> None:
    operation = Counting()
    async with a_runner(wire, colour) as runner:
        wire.set(Cut.REPLY, "COMMIT")
        await runner.run(operation, wait=WAIT)
    assert (operation.runs, total(own_postgres_url)) == (2, 2)


@pytest.mark.parametrize(("cut", "text", "kept"), [(Cut.REPLY, "INSERT", 1), (Cut.BEFORE, "", 0)])
async def test_a_batch_is_never_run_again_whether_it_was_committed_or_not(
    wire: Proxy, own_postgres_url: str, colour: Colour, cut: Cut, text: str, kept: int
) -> None:
    operation = Counting()
    async with a_runner(wire, colour) as runner:
        wire.set(cut, text)
        with pytest.raises(duly.errors.StoreUnavailable, match="could not be reached"):
            await runner.run_batch(operation)
        assert (operation.runs, total(own_postgres_url)) == (1, kept)
        await runner.run_batch(operation)
    assert total(own_postgres_url) == kept + 1


async def test_a_handlers_transaction_whose_commit_was_lost_is_told_and_not_run_again(
    wire: Proxy, own_postgres_url: str, colour: Colour
) -> None:
    operation = Counting()
    async with a_runner(wire, colour) as runner:
        wire.set(Cut.REPLY, "COMMIT")
        with pytest.raises(duly.errors.StoreUnavailable, match="could not be reached"):
            async with runner.open_transaction(wait=WAIT) as opened:
                await operation(opened.session)
        assert operation.runs == 1
        async with runner.open_transaction(wait=WAIT) as opened:
            await operation(opened.session)
    assert total(own_postgres_url) == 2


async def test_a_silent_server_is_not_asked_again_for_what_may_run_once(
    wire: Proxy, own_postgres_url: str, colour: Colour
) -> None:
    operation = Counting()
    async with a_runner(wire, colour) as runner:
        trap = wire.set(Cut.HOLE, "COMMIT")
        with pytest.raises(duly.errors.StoreUnavailable, match="could not be reached"):
            await runner.run(operation, wait=WAIT, after_loss=False)
        assert (operation.runs, trap.sprung) == (1, 1)
        trap = wire.set(Cut.HOLE, "INSERT")
        with pytest.raises(duly.errors.StoreUnavailable, match="could not be reached"):
            await runner.run_batch(operation)
        assert (operation.runs, trap.sprung) == (2, 1)
    assert total(own_postgres_url) == 2
