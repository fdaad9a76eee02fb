"""A caller that is cancelled holds nothing afterwards: the next one is first.

Cancellation is delivered at every await of every call, one run for each, so none is left out.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import psycopg
import pytest

import duly
from tests.support.arenas import users_transaction
from tests.support.cancelling import nobody_is_left, was_cancelled
from tests.support.processes import until
from tests.support.watching import waits, waits_no_more

MINUTE = timedelta(minutes=1)
# A connection that was not given back would make the next call wait for ever: there is no other.
POOL = 1
MARK = "SET state = 'done'"
Call = Callable[[duly.types.Store, str], Awaitable[object]]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    kind = "own_postgres_url" if request.param == "postgres" else "sqlite_url"
    address: str = request.getfixturevalue(kind)
    return address


async def dedup(store: duly.types.Store, key: str) -> object:
    return await duly.aio.dedup(store, "shop", key)


async def dedup_many(store: duly.types.Store, key: str) -> object:
    return await duly.aio.dedup_many(store, "shop", [key, "x" + key])


async def enter(store: duly.types.Store, key: str) -> object:
    return await duly.aio.once(store, "shop", key, lease=MINUTE).__aenter__()


async def is_free(store: duly.types.Store, key: str) -> bool:
    """Whether the next caller is first, for every key the call was about."""
    answers = await duly.aio.dedup_many(store, "shop", [key, "x" + key])
    return all(answer.first for answer in answers)


@pytest.mark.promise("I12")
@pytest.mark.parametrize("opened", ["cold", "warm"])
@pytest.mark.parametrize("call", [dedup, dedup_many, enter])
async def test_a_call_cancelled_at_any_await_has_claimed_nothing(
    call: Call, opened: str, url: str
) -> None:
    suspension = 0
    cancelled = True
    while cancelled:
        suspension += 1
        key = f"{call.__name__}-{opened}-{suspension}"
        async with duly.store(url, connections=POOL) as store:
            if opened == "warm":
                await duly.aio.prune(store)
            cancelled = await was_cancelled(suspension, settled(call(store, key)))
            if cancelled:
                assert await is_free(store, key), f"at await {suspension}"
    assert suspension > 1, "nothing was cancelled"
    assert await nobody_is_left(url)


async def settled(awaitable: Awaitable[object]) -> object:
    return await awaitable


async def test_a_fence_cancelled_at_any_await_is_run_again_or_was_done(url: str) -> None:
    suspension = 0
    cancelled = True
    async with duly.store(url, connections=POOL) as store:
        await duly.aio.prune(store)
        while cancelled:
            suspension += 1
            runs: list[str] = []

            async def work(runs: list[str] = runs) -> str:
                await asyncio.sleep(0)
                runs.append("done")
                return "done"

            key = f"fence-{suspension}"
            fence = duly.aio.fence(store, "shop", key, work)
            cancelled = await was_cancelled(suspension, fence)
            assert await duly.aio.fence(store, "shop", key, work) == "done"
            # Work that ended before its mark was heard may be done again, and never a third time.
            assert 1 <= len(runs) <= 2
            assert await duly.aio.fence(store, "shop", key, work) == "done"
            assert len(runs) <= 2
    assert suspension > 3, "nothing was cancelled"


@asynccontextmanager
async def locked(url: str) -> AsyncIterator[None]:
    """Every claim there is locked by somebody else; free again at the end."""
    async with await psycopg.AsyncConnection.connect(url) as other:
        await other.execute("SELECT FROM duly_claims FOR UPDATE")
        yield


async def test_a_fence_cancelled_while_its_mark_waits_gives_the_key_back(
    own_postgres_url: str,
) -> None:
    worked = asyncio.Event()

    async def work() -> str:
        worked.set()
        await may_mark.wait()
        return "first"

    async def next_one() -> str:
        return "next"

    may_mark = asyncio.Event()
    async with duly.store(own_postgres_url) as store:
        fence = asyncio.create_task(duly.aio.fence(store, "shop", "a", work))
        await worked.wait()
        async with locked(own_postgres_url):
            may_mark.set()
            await asyncio.to_thread(until, lambda: waits(own_postgres_url, MARK))
            fence.cancel()
            await asyncio.to_thread(until, lambda: waits_no_more(own_postgres_url, MARK))
        await asyncio.wait([fence])
        assert fence.cancelled()
        assert await duly.aio.fence(store, "shop", "a", next_one) == "next"


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg", "aiosqlite"])
@pytest.mark.parametrize("wait", [None, MINUTE])
async def test_once_cancelled_at_any_await_leaves_a_transaction_that_rolls_back(
    driver: str, wait: timedelta | None, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("sqlite_url" if driver == "aiosqlite" else "own_postgres_url")
    with duly.store(url):
        pass
    suspension = 0
    cancelled = True
    while cancelled:
        suspension += 1
        async with users_transaction(driver, url) as connection:
            turns = duly.aio.once(connection, "shop", "a", wait=wait)
            cancelled = await was_cancelled(suspension, turns.__aenter__())
            if not cancelled:
                await turns.__aexit__(None, None, None)
        async with users_transaction(driver, url) as connection:
            assert (await duly.aio.dedup(connection, "shop", "a", wait=timedelta(0))).first
    assert suspension > 3, "nothing was cancelled"
