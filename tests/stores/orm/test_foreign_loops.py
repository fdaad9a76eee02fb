"""A pool of awaited connections serves one event loop, and another one is refused at its start."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import NullPool
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

import duly
from tests.stores.join.sqlalchemy_handles import engine_url
from tests.stores.orm.test_promises import told
from tests.stores.orm.worlds import WORLDS, Hand, World, made, post, signed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.stores.join.places import Place

pytestmark = pytest.mark.slow

AWAITED = [world for world in WORLDS if world.colour == "async"]
on_awaited = pytest.mark.parametrize("world", AWAITED, ids=str)
VERBS: dict[str, Callable[[duly.Duly], Any]] = {
    "work": lambda app: app.work(),
    "relay": lambda app: app.relay(),
    "transaction": lambda app: asyncio.run(transact(app)),
}


async def transact(app: duly.Duly) -> None:
    async with app.aio.transaction() as tx:
        await tx.execute("SELECT 1")


@asynccontextmanager
async def serving(
    world: World, place: Place, scope: str, **options: Any
) -> AsyncIterator[tuple[duly.Duly, Any]]:
    """An application that has received in the running loop, as under a server."""
    engine = create_async_engine(engine_url(place.url, world.driver), **options)
    app = made(async_sessionmaker(engine), scope)

    async def write(event: duly.Event, hand: Hand) -> None:
        await hand.write(event.id)

    world.handle(app, scope, write)
    assert told(await post(app, scope, signed(f"{scope}-0"), "asgi")) == (200, "accepted")
    try:
        yield app, engine
    finally:
        await app.aclose()
        app.close()
        await engine.dispose()


def outcome_in_a_thread(call: Callable[[], Any]) -> Exception | None:
    """What a call raises on a thread, which has no event loop or one of its own."""
    raised: list[Exception | None] = [None]

    def run() -> None:
        try:
            call()
        except Exception as problem:
            raised[0] = problem

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return raised[0]


@on_awaited
@pytest.mark.parametrize("verb", VERBS)
async def test_a_second_event_loop_is_refused_with_the_remedy_while_the_first_runs(
    world: World, verb: str, place: Place, scope: str
) -> None:
    async with serving(world, place, scope) as (app, _):
        problem = await asyncio.to_thread(outcome_in_a_thread, lambda: VERBS[verb](app))
        # And nothing of it reached the pool: what is acknowledged is there.
        taken = await post(app, scope, signed(f"{scope}-1", b'{"n":1}'), "asgi")

    assert isinstance(problem, duly.errors.UsageError)
    assert all(word in str(problem) for word in ("app.aio.work", "duly worker", "NullPool"))
    assert told(taken) == (200, "accepted")
    assert place.notes(scope) == [f"{scope}-0", f"{scope}-1"]


@on_awaited
async def test_without_a_pool_every_event_loop_is_welcome(
    world: World, place: Place, scope: str
) -> None:
    async with serving(world, place, scope, poolclass=NullPool) as (app, _):
        assert (
            await asyncio.to_thread(outcome_in_a_thread, lambda: VERBS["transaction"](app)) is None
        )


@on_awaited
def test_a_loop_of_dulys_own_leaves_the_pool_to_the_next_one(
    world: World, place: Place, scope: str
) -> None:
    engine = create_async_engine(engine_url(place.url, world.driver))
    app = duly.Duly(begin=async_sessionmaker(engine))

    @app.job(name=scope, queue=scope)
    async def nothing(tx: Any) -> None:
        await tx.execute("SELECT 1")

    for _ in range(2):
        app.enqueue(scope)
        assert app.work(queues=[scope]).done == 1
    app.close()
    asyncio.run(engine.dispose())


@pytest.mark.parametrize("world", [one for one in AWAITED if one.driver == "asyncpg"], ids=str)
def test_a_pool_whose_loop_has_stopped_is_refused_with_the_remedy(
    world: World, place: Place
) -> None:
    engine = create_async_engine(engine_url(place.url, world.driver))
    app = duly.Duly(begin=async_sessionmaker(engine))
    first = asyncio.new_event_loop()

    async def use() -> None:
        await transact(app)
        await app.aclose()

    first.run_until_complete(use())
    with pytest.raises(
        duly.errors.UsageError, match=r"await engine\.dispose\(\) before a loop ends"
    ):
        asyncio.run(use())
    first.run_until_complete(engine.dispose())
    first.close()
    second = asyncio.new_event_loop()
    second.run_until_complete(use())  # the pool is a new one
    second.run_until_complete(engine.dispose())
    second.close()
    app.close()
