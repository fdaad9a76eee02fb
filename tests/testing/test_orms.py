"""Handlers that work in the user's own ORM are tested in it, on a database for tests."""

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

import duly
from duly.stores.orm.django_tests import TABLES
from duly.testing import Databases, isolated, test_database
from duly.testing.guard import NotATestDatabase
from tests.testing.shops import PAID, SECRET

TABLE = "CREATE TABLE payments (id text)"
WRITE = text("INSERT INTO payments (id) VALUES (:id)")


def write(event: duly.Event, tx: Any) -> None:
    tx.session.execute(WRITE, {"id": event.id})


async def write_awaited(event: duly.Event, tx: Any) -> None:
    await tx.session.execute(WRITE, {"id": event.id})


def a_shop(begin: Any, handler: Any) -> duly.Duly:
    app = duly.Duly(begin=begin)
    app.source("stripe", secret=SECRET)
    app.source("now", provider="stripe", secret=SECRET, inline=True)
    app.on("stripe")(handler)
    app.on("now")(handler)
    return app


def engine_url(url: str, driver: str) -> str:
    dialect, _, rest = url.partition("://")
    return f"{dialect}+{driver}://{rest}"


def test_a_sessionmaker_on_the_database_of_the_test_is_used(tmp_path: Path) -> None:
    own = sessionmaker(create_engine(f"sqlite:///{tmp_path / 'real.db'}", poolclass=NullPool))
    app = a_shop(own, write)
    with Databases().fresh() as url:
        engine = create_engine(url, poolclass=NullPool)
        with engine.begin() as connection:
            connection.execute(text(TABLE))
        for trial_options in ({"begin": sessionmaker(engine)}, own_moved(own, engine)):
            with isolated(app, url=url, **trial_options) as trial:
                event = {**PAID, "id": f"evt_{len(trial_options)}"}
                assert trial.deliver("now", event, times=2).words == ["accepted", "duplicate"]
                assert trial.deliver("stripe", event).word == "accepted"
                assert trial.run_jobs().done == ["write"]
        with engine.begin() as connection:
            rows = connection.execute(text("SELECT id FROM payments ORDER BY id"))
            assert [id for (id,) in rows] == ["evt_0", "evt_0", "evt_1", "evt_1"]
    assert not (tmp_path / "real.db").exists()


def own_moved(own: Any, engine: Any) -> dict[str, Any]:
    """What many projects do in their conftest.py: their own sessions go to the test's database."""
    own.configure(bind=engine)
    return {}


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_the_same_holds_for_sessions_that_are_awaited(
    store: str, tmp_path: Path, own_postgres_url: str
) -> None:
    url = f"sqlite:///{tmp_path / 'test.db'}" if store == "sqlite" else own_postgres_url
    engine = create_async_engine(
        engine_url(url, "aiosqlite" if store == "sqlite" else "psycopg"), poolclass=NullPool
    )
    own = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'real.db'}", poolclass=NullPool)
    app = a_shop(async_sessionmaker(own), write_awaited)
    async with engine.begin() as connection:
        await connection.execute(text(TABLE))
    with isolated(app, url=test_database(url), begin=async_sessionmaker(engine)) as trial:
        answers = await trial.deliver.aio("now", PAID, times=10, at_once=True)
        assert answers.counts == {"accepted": 1, "duplicate": 9}
        await trial.deliver.aio("stripe", PAID)
        assert (await trial.run_jobs.aio()).done == ["write_awaited"]
        async with engine.begin() as connection:
            assert len((await connection.execute(text("SELECT id FROM payments"))).all()) == 2
        await app.process.release_loop()
    assert not (tmp_path / "real.db").exists()


def test_sessions_that_do_not_sync_are_good_enough_for_a_test(tmp_path: Path) -> None:
    own = create_engine(f"sqlite:///{tmp_path / 'real.db'}", poolclass=NullPool)
    app = a_shop(sessionmaker(own), write)
    with Databases().fresh() as url:
        engine = create_engine(url, poolclass=NullPool)
        sqlalchemy.event.listen(engine, "connect", hurry)
        with isolated(app, url=url, begin=sessionmaker(engine)) as trial:
            with trial.app.transaction() as tx:
                tx.execute(TABLE)
            assert trial.deliver("now", PAID).word == "accepted"


def hurry(connection: Any, record: object) -> None:
    """What many do in tests: nobody cuts the power."""
    connection.execute("PRAGMA synchronous = OFF")


def test_sessions_that_lead_to_another_database_are_refused(tmp_path: Path) -> None:
    own = create_engine(f"sqlite:///{tmp_path / 'real.db'}", poolclass=NullPool)
    app = a_shop(sessionmaker(own), write)
    told = r"begin=, which leads to sqlite:///.*real\.db, and not to the database of this test"
    with pytest.raises(NotATestDatabase, match=told), isolated(app):
        pytest.fail("its handlers would write into the real database")
    assert not (tmp_path / "real.db").exists()


def test_sessions_that_the_handlers_cannot_work_in_are_refused(
    shop: duly.Duly, tmp_path: Path
) -> None:
    own = create_engine(f"sqlite:///{tmp_path / 'real.db'}", poolclass=NullPool)
    other = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'a.db'}", poolclass=NullPool)
    with pytest.raises(duly.errors.UsageError, match="was made without begin="):
        isolated(shop, begin=sessionmaker(own)).__enter__()
    with pytest.raises(duly.errors.UsageError, match="was made for sync ones"):
        isolated(a_shop(sessionmaker(own), write), begin=async_sessionmaker(other)).__enter__()


def test_every_table_that_holds_work_is_emptied() -> None:
    store = duly.store("memory:")
    app = duly.Duly(store.url)
    with app.transaction() as tx:
        found = tx.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    app.close()
    ours = {row["name"].removeprefix("duly_") for row in found if row["name"].startswith("duly_")}
    assert ours - {"meta"} == set(TABLES)
