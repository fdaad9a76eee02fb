"""What cannot be joined is refused at once, nothing is written, and the message says what to do."""

import pytest
from sqlalchemy import NullPool, create_engine
from sqlalchemy.ext.asyncio import create_async_engine

import duly
from duly.errors import NotJoinable
from tests.stores.join.places import Place
from tests.stores.join.sqlalchemy_handles import engine_url
from tests.stores.join.ways import ALL, Handle, Way

POSTGRES = [way for way in ALL if way.store == "postgres"]
TOLD = [way for way in ALL if way.begins == "when told"]


async def refused(user: Handle, scope: str, match: str) -> None:
    """Every verb is refused in these words."""
    with pytest.raises(NotJoinable, match=match):
        await user.dedup(scope, "evt")
    with pytest.raises(NotJoinable, match=match):
        await user.dedup_many(scope, ["evt"])
    with pytest.raises(NotJoinable, match=match):
        async with user.once(scope, "evt"):
            pytest.fail("there is no transaction")
    with pytest.raises(NotJoinable, match=match):
        await user.newer("order-1", 1)
    with pytest.raises(NotJoinable, match=match):
        await user.migrate()


@pytest.mark.parametrize("way", TOLD, ids=str)
async def test_a_connection_that_would_commit_by_itself_is_refused(
    way: Way, place: Place, scope: str
) -> None:
    async with way.open(place.url) as user:
        remedy = {
            "sqlite3-by-hand": "BEGIN IMMEDIATE",
            "sqlite3-autocommit": "BEGIN IMMEDIATE",
            "psycopg-autocommit": r"with connection\.transaction\(\)",
            "asyncpg": r"async with connection\.transaction\(\)",
            "asyncpg-pool": r"async with connection\.transaction\(\)",
        }.get(way.name, r"with transaction\.atomic\(using=")
        await refused(user, scope, remedy)
        assert not user.in_transaction()
    assert place.claims(scope) == []


@pytest.mark.parametrize("way", POSTGRES, ids=str)
async def test_a_failed_transaction_is_refused_until_it_is_rolled_back(
    way: Way, place: Place, scope: str
) -> None:
    async with way.open(place.url) as user:
        await user.begin()
        with pytest.raises(Exception, match=r"(?i)division by zero"):
            await user.execute("SELECT 1 / 0")
        await refused(user, scope, "failed")
        await user.rollback()
        await user.begin()
        assert (await user.dedup(scope, "evt")).first
        await user.commit()
    assert place.claims(scope) == ["evt"]


@pytest.mark.parametrize("driver", ["pysqlite", "psycopg", "aiosqlite", "psycopg_async", "asyncpg"])
@pytest.mark.parametrize("where", ["engine", "connection"])
async def test_autocommit_of_sqlalchemy_is_refused(
    driver: str, where: str, request: pytest.FixtureRequest, scope: str
) -> None:
    sqlite = driver.endswith("sqlite")
    url = engine_url(request.getfixturevalue("sqlite_url" if sqlite else "postgres_url"), driver)
    option = {"isolation_level": "AUTOCOMMIT"}
    of_engine = option if where == "engine" else {}
    if driver in ("pysqlite", "psycopg"):
        engine = create_engine(url, poolclass=NullPool, **of_engine)
        connected = engine.connect().execution_options(**option)
        with connected as connection, pytest.raises(NotJoinable, match="AUTOCOMMIT"):
            duly.dedup(connection, scope, "evt")
    else:
        async_engine = create_async_engine(url, poolclass=NullPool, **of_engine)
        async with async_engine.connect() as async_connection:
            if where == "connection":
                _ = await async_connection.execution_options(**option)
            with pytest.raises(NotJoinable, match="AUTOCOMMIT"):
                await duly.aio.dedup(async_connection, scope, "evt")
