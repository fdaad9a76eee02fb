"""An exit, an interrupt or a closed generator gives the key back as any other error does."""

import asyncio
from collections.abc import Generator
from datetime import timedelta

import psycopg
import pytest

import duly
from tests.support.arenas import users_transaction

MINUTE = timedelta(minutes=1)
EXITS: list[type[BaseException]] = [
    SystemExit,
    KeyboardInterrupt,
    GeneratorExit,
    asyncio.CancelledError,
    StopIteration,
]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    kind = "own_postgres_url" if request.param == "postgres" else "sqlite_url"
    address: str = request.getfixturevalue(kind)
    return address


def raising(kind: type[BaseException]) -> None:
    raise kind


@pytest.mark.promise("I12")
@pytest.mark.parametrize("kind", EXITS)
def test_an_exit_inside_a_leased_turn_or_a_fence_gives_the_key_back(
    kind: type[BaseException], url: str
) -> None:
    with duly.store(url) as store:
        with pytest.raises(kind), duly.once(store, "shop", "a", lease=MINUTE):
            raising(kind)
        with pytest.raises(kind):
            duly.fence(store, "shop", "a", lambda: raising(kind))
        assert duly.fence(store, "shop", "a", lambda: "next") == "next"


@pytest.mark.promise("I12")
@pytest.mark.parametrize("kind", [each for each in EXITS if each is not StopIteration])
async def test_an_exit_inside_an_awaited_turn_or_fence_gives_the_key_back(
    kind: type[BaseException], url: str
) -> None:
    async def work() -> None:
        raising(kind)

    async def next_one() -> str:
        return "next"

    async with duly.store(url) as store:
        with pytest.raises(kind):
            async with duly.aio.once(store, "shop", "a", lease=MINUTE):
                raising(kind)
        with pytest.raises(kind):
            await duly.aio.fence(store, "shop", "a", work)
        assert await duly.aio.fence(store, "shop", "a", next_one) == "next"


@pytest.mark.parametrize("kind", EXITS)
def test_an_exit_inside_once_in_a_transaction_takes_the_claim_with_it(
    kind: type[BaseException], own_postgres_url: str
) -> None:
    with psycopg.connect(own_postgres_url) as connection:
        with pytest.raises(kind), duly.once(connection, "shop", "a"):
            connection.execute("CREATE TABLE half_done ()")
            raising(kind)
        assert duly.dedup(connection, "shop", "a").first
        connection.execute("CREATE TABLE half_done ()")


@pytest.mark.parametrize("kind", EXITS[:-1])
@pytest.mark.parametrize("driver", ["asyncpg", "psycopg", "aiosqlite"])
async def test_an_exit_inside_an_awaited_once_takes_the_claim_with_it(
    driver: str, kind: type[BaseException], request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("sqlite_url" if driver == "aiosqlite" else "own_postgres_url")
    with duly.store(url):
        pass
    async with users_transaction(driver, url) as connection:
        with pytest.raises(kind):
            async with duly.aio.once(connection, "shop", "a"):
                raising(kind)
        assert (await duly.aio.dedup(connection, "shop", "a")).first


def test_a_generator_that_is_closed_inside_a_turn_gives_the_key_back(url: str) -> None:
    def turns(store: duly.types.Store) -> Generator[bool, None, None]:
        with duly.once(store, "shop", "a", lease=MINUTE) as turn:
            yield turn.first

    with duly.store(url) as store:
        generator = turns(store)
        assert next(generator)
        generator.close()
        assert next(turns(store))
