"""What cannot keep the promise is refused, and says what to do instead."""

from __future__ import annotations

import logging
import sys
from subprocess import run
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections, transaction
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.ext.asyncio import (
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, scoped_session, sessionmaker

import duly
from tests.stores.join.django_handles import configured
from tests.stores.join.places import Place, settle_in
from tests.stores.orm.test_promises import told
from tests.stores.orm.worlds import SECRET, WORLDS, Hand, World, django_alias, made, post, signed

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

everywhere = pytest.mark.parametrize("world", WORLDS, ids=str)


async def nothing(event: duly.Event, hand: Hand) -> None:
    """Handle an event by looking at it."""


async def ignore(event: duly.Event, tx: duly.aio.Tx) -> None:
    """The same, as a handler."""


class Base(DeclarativeBase):
    """The tables of these tests."""


class Elsewhere(Base):
    """A row in a second database."""

    __tablename__ = "elsewhere"
    id: Mapped[int] = mapped_column(primary_key=True)


@pytest.mark.parametrize("flushed", [False, True], ids=["flushed by duly", "flushed"])
@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_a_session_that_writes_through_a_second_engine_is_not_committed(
    mode: str, flushed: bool, scope: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two engines commit one after the other, and the work of one may be lost."""
    place = settle_in(f"sqlite:///{tmp_path / 'place.db'}")
    second = create_engine(f"sqlite:///{tmp_path / 'second.db'}")
    Base.metadata.create_all(second)

    def blocks(event: duly.Event, tx: duly.Tx[Any]) -> None:
        tx.session.add(Elsewhere(id=1))
        if flushed:
            tx.session.flush()

    async def awaits(event: duly.Event, tx: duly.aio.Tx[Any]) -> None:
        tx.session.add(Elsewhere(id=1))
        if flushed:
            await tx.session.flush()

    begin: Any = sessionmaker(create_engine(place.url), binds={Elsewhere: second})
    engines = [
        create_async_engine(f"sqlite+aiosqlite:///{tmp_path / name}")
        for name in ("place.db", "second.db")
    ]
    if mode == "async":
        begin = async_sessionmaker(engines[0], binds={Elsewhere: engines[1]})
    app = made(begin, scope, place.url)
    app.on(scope, name="two")(blocks if mode == "sync" else awaits)
    answer = await post(app, scope, signed(scope), "asgi")
    await app.aclose()
    app.close()
    for engine in engines:
        await engine.dispose()

    assert answer.status_code == 500
    assert "through two engines" in caplog.text
    with second.connect() as connection:
        assert inspect(connection).get_table_names() == ["elsewhere"]
        assert connection.execute(text("SELECT id FROM elsewhere")).all() == []
    assert place.claims(scope) == []


@everywhere
async def test_a_url_that_leads_to_another_database_is_refused(
    world: World, place: Place, scope: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = settle_in(f"sqlite:///{tmp_path / 'other.db'}")
    async with world.begin(place.url) as begin:
        app = made(begin, scope, other.url)
        world.handle(app, scope, nothing)
        refused = await post(app, scope, signed(scope), "asgi")
        await app.aclose()
        app.close()

    assert told(refused) == (503, "STORE_UNAVAILABLE")
    assert "different databases" in caplog.text
    assert (place.claims(scope), other.claims(scope)) == ([], [])


async def test_a_begin_that_leads_to_a_database_without_tables_is_refused_as_another(
    scope: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not as one to migrate: `duly migrate` on the app's url would find nothing to do."""
    place = settle_in(f"sqlite:///{tmp_path / 'place.db'}")
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'empty.db'}")
    app = made(async_sessionmaker(engine), scope, place.url)
    app.on(scope, name="nothing")(ignore)
    refused = await post(app, scope, signed(scope), "asgi")
    await app.aclose()
    app.close()
    await engine.dispose()

    assert told(refused) == (503, "STORE_UNAVAILABLE")
    assert "different databases" in caplog.text


@everywhere
async def test_the_url_of_the_same_database_is_accepted(
    world: World, place: Place, scope: str
) -> None:
    async with world.begin(place.url) as begin:
        app = made(begin, scope, place.url)
        world.handle(app, scope, nothing)
        taken = await post(app, scope, signed(scope), "asgi")
        await app.aclose()
        app.close()

    assert told(taken) == (200, "accepted")


@everywhere
@pytest.mark.parametrize("inline", [True, False])
async def test_a_handler_of_the_other_colour_is_refused_at_registration(
    world: World, inline: bool, sqlite_url: str
) -> None:
    def blocking(tx: duly.Tx) -> None: ...
    async def awaited(tx: Any) -> None: ...

    wrong: Any = awaited if world.colour == "sync" else blocking
    async with world.begin(sqlite_url if world.store == "sqlite" else "postgresql://h/d") as begin:
        app = duly.Duly(begin=begin)
        app.source("shop", provider="standard-webhooks", secret=SECRET, inline=inline)
        with pytest.raises(duly.errors.UsageError, match="make it"):
            app.on("shop", name="wrong")(wrong)


def test_a_synchronous_sessionmaker_needs_no_greenlet(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['greenlet'] = None\n"
        "import duly; from sqlalchemy import create_engine, text\n"
        "from sqlalchemy.orm import sessionmaker\n"
        "app = duly.Duly(begin=sessionmaker(create_engine('sqlite:///shop.db')))\n"
        "app.source('stripe', secret='whsec_x')\n"
        "app.on('stripe', name='record')(lambda tx: tx.session.execute(text('SELECT 1')))\n"
        "sent = duly.sign(duly.Source('stripe', 'whsec_x'), b'{\"id\": \"evt_1\"}')\n"
        "print(app.receive('stripe', sent.headers, sent.body).status, app.work().done)\n"
    )
    command = [sys.executable, "-c", program]
    ran = run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert ran.stdout == "200 1\n", ran.stderr


def test_what_is_no_factory_is_refused_with_what_to_pass(tmp_path: Path) -> None:
    engine = create_engine("sqlite:///shop.db")
    awaited = create_async_engine("sqlite+aiosqlite:///shop.db")
    mistaken: Any = sessionmaker
    awaited_mistaken: Any = async_sessionmaker
    cases: list[tuple[Any, str]] = [
        (engine, r"pass sessionmaker\(engine\)"),
        (awaited, r"pass async_sessionmaker\(engine\)"),
        (sessionmaker(engine)(), "pass its sessionmaker"),
        (AsyncSession(awaited), "pass its sessionmaker"),
        (scoped_session(sessionmaker(engine)), "session_factory"),
        (async_scoped_session(async_sessionmaker(awaited), scopefunc=object), "session_factory"),
        ("sqlite:///shop.db", "not a str"),
        (sessionmaker(), "no engine"),
        (mistaken(awaited), "pass an async_sessionmaker"),
        (awaited_mistaken(engine), "create_async_engine"),
    ]
    for begin, reason in cases:
        with pytest.raises(duly.errors.UsageError, match=reason):
            duly.Duly(begin=begin)
    configured()  # by whichever test of Django's comes first otherwise
    with pytest.raises(duly.errors.UsageError, match="no 'nowhere'"):
        duly.Duly(begin=duly.django.database("nowhere"))
    with (
        django_alias(f"sqlite:///{tmp_path / 'shop.db'}") as alias,
        pytest.raises(duly.errors.UsageError, match=r"pass duly\.django\.database\('default'\)"),
    ):
        duly.Duly(begin=connections[alias])  # type: ignore[arg-type]


async def refused(app: duly.Duly, world: World, source: str) -> None:
    """The delivery is answered 503 and nothing is written."""
    world.handle(app, source, nothing)
    answer = await post(app, source, signed(source), "wsgi")
    await app.aclose()
    app.close()
    assert told(answer) == (503, "STORE_UNAVAILABLE")


@pytest.mark.parametrize("world", WORLDS[:3], ids=str)
async def test_an_engine_that_commits_by_itself_is_refused(
    world: World, place: Place, scope: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with world.begin(place.url, isolation_level="AUTOCOMMIT") as begin:
        await refused(made(begin, scope), world, scope)

    assert "AUTOCOMMIT" in caplog.text
    assert place.claims(scope) == []


DJANGO = [world for world in WORLDS if world.is_django]


@pytest.mark.parametrize("world", DJANGO, ids=str)
async def test_a_django_database_whose_blocks_commit_nothing_is_refused(
    world: World, place: Place, scope: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with world.begin(place.url, AUTOCOMMIT=False) as begin:
        await refused(made(begin, scope), world, scope)

    assert "AUTOCOMMIT off" in caplog.text
    assert place.claims(scope) == []


@pytest.mark.parametrize("world", DJANGO, ids=str)
async def test_a_block_around_the_handlers_own_is_refused_because_it_would_commit_too_late(
    world: World, place: Place, scope: str, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        django_alias(place.url) as alias,
        caplog.at_level(logging.ERROR),
        transaction.atomic(using=alias),
    ):
        await refused(made(duly.django.database(alias), scope), world, scope)

    assert "acknowledged before that block commits" in caplog.text
    assert place.claims(scope) == []
