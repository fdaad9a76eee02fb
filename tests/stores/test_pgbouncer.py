"""Everything works through PgBouncer in transaction mode, which duly notices by itself.

There, two transactions of one client may meet two server processes, so nothing may be left behind
on either: no prepared statement, no setting.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import asyncpg
import psycopg
import pytest

import duly
from duly.stores.postgres.store import PostgresStore
from duly.stores.sql import migrations
from duly.stores.sql.migrations import Migration
from tests.support.servers import through

# psycopg prepares a statement when it is run for the sixth time.
OFTEN = 8
MANY = 6
LEASE = timedelta(minutes=1)
SHORT = timedelta(milliseconds=1)


@pytest.fixture
def own_bouncer_url(bouncer_address: str, own_postgres_url: str) -> str:
    """A migrated database for one test alone, by way of PgBouncer."""
    return through(bouncer_address, own_postgres_url)


@pytest.fixture
def empty_bouncer_url(bouncer_address: str, empty_postgres_url: str) -> str:
    """A database without duly's tables, by way of PgBouncer."""
    return through(bouncer_address, empty_postgres_url)


@pytest.fixture
def store(bouncer_url: str) -> Iterator[duly.types.Store]:
    with duly.store(bouncer_url) as opened:
        yield opened


def left_on_servers(url: str, question: str) -> set[object]:
    """The answer of every server process behind the pooler; transactions keep them apart."""
    answers: dict[int, object] = {}
    with ExitStack() as stack:
        while True:
            session = stack.enter_context(psycopg.connect(url, prepare_threshold=None))
            row = session.execute(f"SELECT pg_backend_pid(), ({question})".encode()).fetchone()
            assert row is not None
            answers[row[0]] = row[1]
            known = session.execute(
                "SELECT array_agg(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND backend_type = 'client backend'"
            ).fetchone()
            assert known is not None
            if set(known[0]) <= set(answers):
                return set(answers.values())


def test_every_verb_works_again_and_again(store: duly.types.Store, scope: str) -> None:
    for number in range(OFTEN):
        key = f"key {number}"
        assert duly.dedup(store, scope, key, body=b"body").first
        assert duly.dedup(store, scope, key, body=b"other").duplicate
        batch = duly.dedup_many(store, scope, [key, f"many {number}"])
        assert [answer.first for answer in batch] == [False, True]
        assert duly.newer(store, scope, number)
        assert not duly.newer(store, scope, number)
        assert duly.fence(store, scope, f"fence {number}", lambda: number) == number  # noqa: B023
        assert duly.fence(store, scope, f"fence {number}", lambda: -1) == number
        with duly.once(store, scope, f"lease {number}", lease=LEASE) as turn:
            turn.renew()
            turn.mark({"number": number})
        with pytest.raises(ZeroDivisionError):
            duly.fence(store, scope, f"failed {number}", lambda: 1 // 0)
        assert duly.fence(store, scope, f"failed {number}", lambda: "later") == "later"


async def test_every_awaited_verb_works_again_and_again(bouncer_url: str, scope: str) -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    async with duly.store(bouncer_url) as store:
        for number in range(OFTEN):
            key = f"key {number}"

            async def work(result: int = number) -> int:
                return result

            assert (await duly.aio.dedup(store, scope, key, body=b"body")).first
            assert (await duly.aio.dedup(store, scope, key, body=b"other")).duplicate
            batch = await duly.aio.dedup_many(store, scope, [key, f"many {number}"])
            assert [answer.first for answer in batch] == [False, True]
            assert await duly.aio.newer(store, scope, number)
            assert not await duly.aio.newer(store, scope, number)
            assert await duly.aio.fence(store, scope, f"fence {number}", work) == number
            async with duly.aio.once(store, scope, f"lease {number}", lease=LEASE) as turn:
                await turn.renew()
                await turn.mark({"number": number})
            with pytest.raises(ZeroDivisionError):
                await duly.aio.fence(store, scope, f"failed {number}", fail)
            assert await duly.aio.fence(store, scope, f"failed {number}", work) == number


def test_pruning_works_again_and_again_in_both_colours(own_bouncer_url: str) -> None:
    async def prune() -> None:
        async with duly.store(own_bouncer_url) as store:
            for number in range(OFTEN):
                await duly.aio.dedup(store, "scope", f"awaited {number}", timedelta(microseconds=1))
                assert await duly.aio.prune(store) == 1

    with duly.store(own_bouncer_url) as store:
        for number in range(OFTEN):
            duly.dedup(store, "scope", f"key {number}", timedelta(microseconds=1))
            assert duly.prune(store) == 1
    asyncio.run(prune())


def test_of_many_threads_exactly_one_is_first(store: duly.types.Store, scope: str) -> None:
    keys = [f"key {number % 20}" for number in range(20 * MANY)]
    with ThreadPoolExecutor(MANY) as threads:
        answers = list(threads.map(lambda key: duly.dedup(store, scope, key), keys))
        batches = list(threads.map(lambda _: duly.dedup_many(store, scope, keys[:20]), range(MANY)))
        fenced = threads.map(
            lambda number: duly.fence(store, scope, f"fence {number}", lambda: number), range(40)
        )
        assert list(fenced) == list(range(40))
    assert sum(answer.first for answer in answers) == 20
    assert not any(answer.first for batch in batches for answer in batch)


async def test_of_many_tasks_exactly_one_is_first(bouncer_url: str, scope: str) -> None:
    keys = [f"key {number % 20}" for number in range(20 * MANY)]
    async with duly.store(bouncer_url) as store:
        answers = await asyncio.gather(*(duly.aio.dedup(store, scope, key) for key in keys))
    assert sum(answer.first for answer in answers) == 20


def test_your_own_psycopg_connection_is_joined(bouncer_url: str, scope: str) -> None:
    with psycopg.connect(bouncer_url, prepare_threshold=None) as connection:
        for number in range(OFTEN):
            with connection.transaction():
                assert duly.dedup(connection, scope, f"key {number}", wait=SHORT).first
                with duly.once(connection, scope, f"once {number}") as turn:
                    turn.result = number
            with connection.transaction(force_rollback=True):
                assert duly.dedup(connection, scope, f"undone {number}").first
            connection.commit()
    with duly.store(bouncer_url) as store:
        assert duly.dedup(store, scope, "key 0").duplicate
        assert duly.dedup(store, scope, "undone 0").first


async def test_your_own_awaited_connections_are_joined(bouncer_url: str, scope: str) -> None:
    async with await psycopg.AsyncConnection.connect(
        bouncer_url, prepare_threshold=None
    ) as connection:
        for number in range(OFTEN):
            async with connection.transaction():
                assert (await duly.aio.dedup(connection, scope, f"psycopg {number}")).first
            await connection.commit()
    other: Any = await asyncpg.connect(bouncer_url, statement_cache_size=0)
    for number in range(OFTEN):
        async with other.transaction():
            assert (await duly.aio.dedup(other, scope, f"asyncpg {number}")).first
            assert (await duly.aio.dedup(other, scope, f"psycopg {number}")).duplicate
    await other.close()


def test_a_bounded_wait_ends_and_leaves_no_bound_behind(own_bouncer_url: str) -> None:
    with (
        duly.store(own_bouncer_url) as store,
        psycopg.connect(own_bouncer_url, prepare_threshold=None) as holder,
    ):
        assert duly.dedup(holder, "scope", "key").first
        for _ in range(OFTEN):
            with pytest.raises(duly.errors.InProgress):
                duly.dedup(store, "scope", "key", wait=SHORT)
        holder.rollback()
        assert duly.dedup(store, "scope", "key").first
    assert left_on_servers(own_bouncer_url, "current_setting('lock_timeout')") == {"0"}


def use_often(url: str) -> None:
    with duly.store(url) as store:
        for number in range(OFTEN):
            duly.dedup(store, "scope", f"key {number}")
            duly.newer(store, "resource", number)


def await_often(url: str) -> None:
    async def use() -> None:
        async with duly.store(url) as store:
            for number in range(OFTEN):
                await duly.aio.dedup(store, "scope", f"key {number}")

    asyncio.run(use())


def migrate_often(url: str) -> None:
    """As a duly with many more migrations would: they all run on one connection."""
    real = migrations.migrations
    known = migrations.latest_version("postgres")
    more = tuple(
        Migration(number, f"{number:04}_more", f"CREATE TABLE {{prefix}}more_{number} (n int);")
        for number in range(known + 1, known + OFTEN + 1)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrations, "migrations", lambda dialect: (*real(dialect), *more))
        assert len(duly.store(url).migrate()) == OFTEN


@pytest.mark.parametrize("use", [use_often, await_often, migrate_often])
def test_behind_a_pooler_no_prepared_statement_is_left_on_any_server(
    own_bouncer_url: str, use: Callable[[str], None]
) -> None:
    use(own_bouncer_url)
    left = left_on_servers(own_bouncer_url, "SELECT count(*) FROM pg_prepared_statements")
    assert left == {0}


def test_on_a_direct_connection_statements_are_prepared(postgres_url: str, scope: str) -> None:
    with duly.store(postgres_url, connections=1) as store:
        assert isinstance(store, PostgresStore)
        for number in range(OFTEN):
            duly.dedup(store, scope, f"key {number}")
        with store.sync_runner.pool().connection() as connection:
            found = connection.execute("SELECT statement FROM pg_prepared_statements").fetchall()
    assert any("INSERT INTO" in text for (text,) in found)


async def test_on_a_direct_awaited_connection_statements_are_prepared(
    postgres_url: str, scope: str
) -> None:
    async with duly.store(postgres_url, connections=1) as store:
        assert isinstance(store, PostgresStore)
        for number in range(OFTEN):
            await duly.aio.dedup(store, scope, f"key {number}")
        pool = await store.async_runner.pool()
        async with pool.connection() as connection:
            cursor = await connection.execute("SELECT statement FROM pg_prepared_statements")
            found = await cursor.fetchall()
    assert any("INSERT INTO" in text for (text,) in found)


def test_migrators_take_turns_through_the_pooler(empty_bouncer_url: str) -> None:
    with ThreadPoolExecutor(MANY) as threads:
        applied = threads.map(
            lambda _: duly.store(empty_bouncer_url).migrate(),
            range(MANY),
        )
        assert sorted(name for each in applied for name in each) == [
            *(
                "0001_ledger",
                "0002_inbox",
                "0003_jobs",
                "0004_outbox",
                "0005_effects",
                "0006_first_due",
                "0007_first_delivery",
            ),
        ]
    duly.store(empty_bouncer_url).check()
