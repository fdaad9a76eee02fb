"""Connections that die under a store are replaced; a server that is away is said so in time."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest

import duly
from duly.cli.main import main
from tests.support.servers.databases import moved

SECRET = "hunter2"
MANY = 4
# Seconds; a pool that knows no better gives up after thirty.
AT_ONCE = 20.0


def terminate_all(url: str) -> int:
    """End every connection that duly has to the database; return how many there were."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity"
            " WHERE application_name = 'duly' AND datname = current_database()"
        ).fetchone()
    assert row is not None
    return int(row[0])


def with_secret(url: str) -> str:
    return url.replace("postgres@", f"postgres:{SECRET}@")


@contextmanager
def closed_port() -> Iterator[int]:
    """A port that nobody listens on, and that nobody else can take meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@contextmanager
def silent_port() -> Iterator[int]:
    """A port where connections are taken and never answered."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_store_whose_connections_were_all_ended_goes_on_by_itself(
    own_postgres_url: str,
) -> None:
    with duly.store(own_postgres_url, connections=MANY) as store:
        together = threading.Barrier(MANY)

        def claim(number: int) -> bool:
            together.wait()
            return duly.dedup(store, "scope", f"key {number}").first

        with ThreadPoolExecutor(MANY) as threads:
            assert all(threads.map(claim, range(MANY)))
        assert terminate_all(own_postgres_url) >= 1
        assert duly.dedup(store, "scope", "key 0").duplicate
        assert terminate_all(own_postgres_url) >= 1
        assert duly.newer(store, "resource", 1)
        terminate_all(own_postgres_url)
        assert duly.fence(store, "scope", "fenced", lambda: 1) == 1


async def test_an_awaited_store_whose_connections_were_all_ended_goes_on_by_itself(
    own_postgres_url: str,
) -> None:
    async with duly.store(own_postgres_url, connections=MANY) as store:
        keys = [f"key {number}" for number in range(3 * MANY)]
        answers = await asyncio.gather(*(duly.aio.dedup(store, "scope", key) for key in keys))
        assert all(answer.first for answer in answers)
        assert await asyncio.to_thread(terminate_all, own_postgres_url) >= 1
        assert (await duly.aio.dedup(store, "scope", "key 0")).duplicate
        assert await asyncio.to_thread(terminate_all, own_postgres_url) >= 1
        assert await duly.aio.newer(store, "resource", 1)


def test_a_connection_that_ends_while_a_turn_is_taken_does_not_cost_the_turn(
    own_postgres_url: str,
) -> None:
    with (
        duly.store(own_postgres_url) as store,
        duly.once(store, "scope", "key", lease=timedelta(minutes=1)) as turn,
    ):
        assert turn.first
        terminate_all(own_postgres_url)
        turn.renew()
        terminate_all(own_postgres_url)
        turn.result = "done"
    with duly.store(own_postgres_url) as store:
        assert duly.fence(store, "scope", "key", lambda: "again") == "done"


def claim(url: str) -> None:
    store = duly.store(url)
    try:
        duly.dedup(store, "scope", "key")
    finally:
        store.close()


def await_claim(url: str) -> None:
    async def ask() -> None:
        async with duly.store(url) as store:
            await duly.aio.dedup(store, "scope", "key")

    asyncio.run(ask())


def open_store(url: str) -> None:
    duly.store(url).open()


def migrate(url: str) -> None:
    duly.store(url).migrate()


def check(url: str) -> None:
    duly.store(url).check()


WAYS: list[Callable[[str], None]] = [claim, await_claim, open_store, migrate, check]


@pytest.mark.parametrize("way", WAYS)
def test_a_server_that_is_not_there_is_said_so_at_once_and_without_the_password(
    postgres_server: str, way: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    with closed_port() as port:
        url = with_secret(moved(postgres_server, "127.0.0.1", port))
        begun = time.monotonic()
        with pytest.raises(duly.errors.StoreUnavailable, match="could not be reached") as caught:
            way(url)
        assert time.monotonic() - begun < AT_ONCE
        assert main(["migrate", url]) == 1
    output = capsys.readouterr()
    assert SECRET not in str(caught.value) + output.out + output.err


@pytest.mark.slow
def test_a_server_that_never_answers_is_given_up_within_its_deadline(
    postgres_server: str,
) -> None:
    def give_up(way: Callable[[str], None]) -> str:
        with pytest.raises(duly.errors.StoreUnavailable) as caught:
            way(url)
        return str(caught.value)

    with silent_port() as port, ThreadPoolExecutor() as threads:
        url = f"{with_secret(moved(postgres_server, '127.0.0.1', port))}?connect_timeout=2"
        begun = time.monotonic()
        messages = list(threads.map(give_up, [claim, await_claim, check]))
    assert time.monotonic() - begun < AT_ONCE
    assert SECRET not in " ".join(messages)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ann:{SECRET}@{SECRET}@127.0.0.1/shop",
        f"postgresql://ann:{SECRET}/{SECRET}@127.0.0.1/shop",
        f"postgresql://ann:a/{SECRET}@127.0.0.1:1/shop",
        f"postgresql://ann:{SECRET}@b/c@127.0.0.1/shop",
        f"postgresql://ann:a@{SECRET}?b@127.0.0.1/shop",
    ],
)
def test_a_password_that_was_not_escaped_is_never_taken_for_a_host_and_shown(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(duly.errors.UsageError) as caught:
        claim(url)
    assert main(["migrate", url]) == 2
    output = capsys.readouterr()
    assert SECRET not in str(caught.value) + output.out + output.err


def test_an_address_whose_query_or_password_is_unusual_but_clear_is_accepted() -> None:
    for url in (
        "postgresql://ann:p%40ss%2Fword@db/shop",
        "postgresql://db/shop?user=ann@tenant",
        "postgresql://ann@db/shop?options=-csearch_path%3Da",
        "postgresql:///shop?host=/var/run/postgresql",
        "postgresql://ann:a?b@db/shop",
        "postgresql://one,two:6432/shop?target_session_attrs=read-write",
    ):
        assert duly.store(url).url == url
