"""2xx only after a COMMIT that was seen, on a connection that was idle before and is idle after."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections
from sqlalchemy import event as events

import duly
from tests.stores.orm.conftest import opened
from tests.stores.orm.shops import a_shop, do_all
from tests.stores.orm.test_promises import told
from tests.stores.orm.worlds import WORLDS, Hand, World, django_alias, made, post, signed

if TYPE_CHECKING:
    from tests.stores.join.places import Place

pytestmark = pytest.mark.slow

ALCHEMY = [world for world in WORLDS if not world.is_django]
DJANGO = [world for world in WORLDS if world.is_django]
# One connection, which the pool hands out as it was given back.
AS_IT_WAS = {"pool_size": 1, "max_overflow": 0, "pool_reset_on_return": None}
on_alchemy = pytest.mark.parametrize("world", ALCHEMY, ids=str)


def engine_of(app: duly.Duly) -> Any:
    """The engine of the app's session factory."""
    begin: Any = app.process.given_begin
    return begin.kw["bind"]


async def leave_open(world: World, engine: Any) -> None:
    """Give the pool's only connection back inside a transaction, as broken code does."""
    if world.colour == "sync":
        with engine.connect() as connection:
            connection.connection.driver_connection.execute("BEGIN")
        return
    async with engine.connect() as connection:
        driver = (await connection.get_raw_connection()).driver_connection
        await driver.execute("BEGIN")


async def write_note(event: duly.Event, hand: Hand) -> None:
    await hand.write(event.id)


@pytest.mark.promise("I1")
@on_alchemy
async def test_a_connection_that_was_left_in_a_transaction_acknowledges_nothing(
    world: World, place: Place, scope: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(world, place.url, scope, **AS_IT_WAS) as app:
        world.handle(app, scope, write_note)
        first = await post(app, scope, signed(f"{scope}-1"), "asgi")
        await leave_open(world, engine_of(app))
        with caplog.at_level(logging.ERROR, "duly"):
            refused = await post(app, scope, signed(f"{scope}-2", b'{"n":2}'), "asgi")
        again = await post(app, scope, signed(f"{scope}-2", b'{"n":2}'), "asgi")

    assert [told(one) for one in (first, refused, again)] == [
        (200, "accepted"),
        (503, "STORE_UNAVAILABLE"),
        (200, "accepted"),
    ]
    assert "inside a transaction of other code" in caplog.text
    assert place.notes(scope) == place.claims(scope) == [f"{scope}-1", f"{scope}-2"]


@pytest.mark.parametrize("world", DJANGO, ids=str)
async def test_a_connection_of_django_that_was_left_in_a_transaction_acknowledges_nothing(
    world: World, place: Place, scope: str
) -> None:
    with django_alias(place.url, CONN_MAX_AGE=None) as alias:
        app = made(duly.django.database(alias), scope)
        world.handle(app, scope, write_note)
        first = await post(app, scope, signed(f"{scope}-1"), "wsgi")
        connections[alias].connection.execute("BEGIN")
        refused = await post(app, scope, signed(f"{scope}-2", b'{"n":2}'), "wsgi")
        again = await post(app, scope, signed(f"{scope}-2", b'{"n":2}'), "wsgi")
        app.close()

    assert [told(one) for one in (first, refused, again)] == [
        (200, "accepted"),
        (503, "STORE_UNAVAILABLE"),
        (200, "accepted"),
    ]
    assert place.notes(scope) == place.claims(scope) == [f"{scope}-1", f"{scope}-2"]


def commit_nothing(app: duly.Duly, times: int) -> None:
    """Have the ORM report commits that it did not make, as asyncpg does inside a transaction."""
    dialect = engine_of(app).dialect
    commit, left = dialect.do_commit, [None] * times

    def report(connection: Any) -> None:
        if left:
            left.pop()
        else:
            commit(connection)

    dialect.do_commit = report


@pytest.mark.promise("I1")
@on_alchemy
async def test_a_commit_that_left_the_transaction_open_is_not_acknowledged(
    world: World, place: Place, scope: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(world, place.url, scope, pool_size=1, max_overflow=0) as app:
        world.handle(app, scope, write_note)
        first = await post(app, scope, signed(f"{scope}-1"), "asgi")
        commit_nothing(app, 1)
        with caplog.at_level(logging.ERROR, "duly"):
            refused = await post(app, scope, signed(f"{scope}-2", b'{"n":2}'), "asgi")
        again = await post(app, scope, signed(f"{scope}-2", b'{"n":2}'), "asgi")

    assert [told(one) for one in (first, refused, again)] == [
        (200, "accepted"),
        (503, "STORE_UNAVAILABLE"),
        (200, "accepted"),
    ]
    assert "the COMMIT was not seen" in caplog.text
    assert place.notes(scope) == place.claims(scope) == [f"{scope}-1", f"{scope}-2"]


@on_alchemy
async def test_the_end_of_a_job_is_not_believed_where_its_commit_was_not_seen(
    world: World, place: Place, scope: str
) -> None:
    async with a_shop(world, place, scope, pool_size=1, max_overflow=0) as shop:
        shop.job(lambda _, hand: do_all(shop, hand))
        commit_nothing(shop.app, 0)
        await shop.app.aio.enqueue(shop.name)
        async with shop.app.process.opener.open_transaction(wait=duly.core.defaults.WAIT):  # type: ignore[union-attr]
            pass  # it has looked at the database now
        commit_nothing(shop.app, 1)
        worked = await shop.work()
        while worked.done == 0:  # it comes back after a moment, as a job whose worker died
            assert shop.left() == (0, 0, 0)
            worked = await shop.work()
        left = shop.left()

    assert left == (2, 2, 1)


@pytest.mark.parametrize("world", [one for one in ALCHEMY if one.colour == "sync"], ids=str)
async def test_a_listener_may_run_a_statement_when_it_connects(
    world: World, place: Place, scope: str
) -> None:
    async with opened(world, place.url, scope, pool_size=1, max_overflow=0) as app:
        engine = engine_of(app)
        events.listen(engine, "engine_connect", lambda one: one.exec_driver_sql("SELECT 1").close())
        world.handle(app, scope, write_note)
        taken = [
            await post(app, scope, signed(f"{scope}-{n}", b'{"n":%d}' % n), "asgi") for n in (1, 2)
        ]

    assert [told(one) for one in taken] == [(200, "accepted")] * 2
    assert place.notes(scope) == place.claims(scope) == [f"{scope}-1", f"{scope}-2"]


@pytest.mark.parametrize("world", ALCHEMY[:1], ids=str)
async def test_a_sessionmaker_on_one_connection_is_refused(world: World, place: Place) -> None:
    from sqlalchemy import create_engine
    from sqlalchemy.orm import sessionmaker

    engine = create_engine(place.url)
    with engine.connect() as connection:
        app = duly.Duly(begin=sessionmaker(connection))
        with (
            pytest.raises(duly.errors.UsageError, match="bind the sessionmaker to an engine"),
            app.transaction(),
        ):
            pass
        app.close()
    engine.dispose()
