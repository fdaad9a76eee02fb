"""What the database aborts is run again by whoever opened the transaction: duly's own by duly.

The same error in a transaction of the user's reaches the user as the driver raised it.
"""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import psycopg
import pytest

import duly
from duly.core.keys import key_of
from tests.support.processes import until
from tests.support.proxies import Proxy, proxy
from tests.support.servers.databases import database_of
from tests.support.watching import waits

SERIALIZATION_FAILURE, DEADLOCK = "40001", "40P01"
LEVELS = ["repeatable read", "serializable"]
# In the order in which a batch meets them.
FIRST, SECOND = sorted(["a", "b"], key=lambda key: key_of("shop", key).digest)


@pytest.fixture
def wire(own_postgres_url: str) -> Iterator[Proxy]:
    with proxy(own_postgres_url) as opened:
        yield opened


def set_for_everyone(url: str, setting: str, value: str) -> None:
    """A setting of the database, for connections that open from now on."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {database_of(url)} SET {setting} = '{value}'")


@contextmanager
def somebody_claims(url: str, key: str) -> Iterator[psycopg.Connection[Any]]:
    """Another's transaction that has claimed a key and not ended yet; commits at the end."""
    with psycopg.connect(url) as other:
        other.execute("SET deadlock_timeout = '1min'")  # the one who waits longer is not aborted
        assert duly.dedup(other, "shop", key).first
        yield other


@pytest.mark.parametrize("level", LEVELS)
def test_a_serialization_failure_in_dulys_own_transaction_is_run_again(
    level: str, wire: Proxy, own_postgres_url: str
) -> None:
    set_for_everyone(own_postgres_url, "default_transaction_isolation", level)
    with duly.store(wire.url) as store, ThreadPoolExecutor() as threads:
        with somebody_claims(own_postgres_url, SECOND):
            batch = threads.submit(duly.dedup_many, store, "shop", [FIRST, SECOND])
            until(lambda: waits(own_postgres_url))
        assert [answer.first for answer in batch.result()] == [True, False]
    assert wire.errors == [SERIALIZATION_FAILURE]


@pytest.mark.parametrize("level", LEVELS)
async def test_an_awaited_serialization_failure_is_run_again_too(
    level: str, wire: Proxy, own_postgres_url: str
) -> None:
    set_for_everyone(own_postgres_url, "default_transaction_isolation", level)
    async with duly.store(wire.url) as store, asyncio.TaskGroup() as tasks:
        with somebody_claims(own_postgres_url, FIRST):
            one = tasks.create_task(duly.aio.dedup(store, "shop", FIRST))
            await asyncio.to_thread(until, lambda: waits(own_postgres_url))
        assert (await one).duplicate
    assert wire.errors == [SERIALIZATION_FAILURE]


def test_a_deadlock_in_dulys_own_transaction_is_run_again(
    wire: Proxy, own_postgres_url: str
) -> None:
    # A server looks for a deadlock once, so late after a wait began. The batch waits first: it
    # must not look before the other waits too, nor be told that its wait is over.
    set_for_everyone(own_postgres_url, "deadlock_timeout", "2s")
    with duly.store(wire.url) as store, ThreadPoolExecutor() as threads:
        with somebody_claims(own_postgres_url, SECOND) as other:
            batch = threads.submit(
                duly.dedup_many, store, "shop", [FIRST, SECOND], wait=timedelta(minutes=1)
            )
            until(lambda: waits(own_postgres_url))
            assert duly.dedup(other, "shop", FIRST).first
        assert all(answer.duplicate for answer in batch.result())
    # The rerun may be quicker than the other's waking and deadlock with it once more.
    assert set(wire.errors) == {DEADLOCK}


@pytest.mark.parametrize("level", LEVELS)
def test_a_serialization_failure_in_the_users_transaction_reaches_them_unchanged(
    level: str, own_postgres_url: str
) -> None:
    with psycopg.connect(own_postgres_url) as user, ThreadPoolExecutor() as threads:
        user.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        with somebody_claims(own_postgres_url, "a"):
            claim = threads.submit(duly.dedup, user, "shop", "a")
            until(lambda: waits(own_postgres_url))
        with pytest.raises(psycopg.errors.SerializationFailure):
            claim.result()
        user.rollback()
        assert duly.dedup(user, "shop", "a").duplicate


@pytest.mark.parametrize("level", ["repeatable_read", "serializable"])
async def test_asyncpgs_serialization_failure_reaches_the_user_unchanged(
    level: str, own_postgres_url: str
) -> None:
    user = await asyncpg.connect(own_postgres_url)
    try:
        with pytest.raises(asyncpg.SerializationError):
            async with user.transaction(isolation=level):
                with somebody_claims(own_postgres_url, "a"):
                    claim = asyncio.create_task(duly.aio.dedup(user, "shop", "a"))
                    await asyncio.to_thread(until, lambda: waits(own_postgres_url))
                await claim
        async with user.transaction():
            assert (await duly.aio.dedup(user, "shop", "a")).duplicate
    finally:
        await user.close()


def test_a_deadlock_in_the_users_transaction_reaches_them_unchanged(own_postgres_url: str) -> None:
    with psycopg.connect(own_postgres_url) as user, ThreadPoolExecutor() as threads:
        assert duly.dedup(user, "shop", "a").first
        with somebody_claims(own_postgres_url, "b") as other:
            crossing = threads.submit(duly.dedup, other, "shop", "a")
            until(lambda: waits(own_postgres_url))
            with pytest.raises(psycopg.errors.DeadlockDetected):
                duly.dedup(user, "shop", "b")
            user.rollback()
            assert crossing.result().first
