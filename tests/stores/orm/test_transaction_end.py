"""A handler's transaction is ended by duly alone, and nothing outlives it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event as events
from sqlalchemy import text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, sessionmaker

import duly
from tests.stores.orm.conftest import opened
from tests.stores.orm.test_promises import told
from tests.stores.orm.worlds import WORLDS, Hand, World, made, post, signed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.stores.join.places import Place

pytestmark = pytest.mark.slow

everywhere = pytest.mark.parametrize("world", WORLDS, ids=str)
ALCHEMY = [world for world in WORLDS if not world.is_django]


class Base(DeclarativeBase):
    """What SQLAlchemy maps."""


class Note(Base):
    """The table that the tests write to."""

    __tablename__ = "notes"
    note: Mapped[str] = mapped_column(primary_key=True)
    scope: Mapped[str]


# sqlite3's own connection, which Django's stands before, takes no attributes and has no guard.
GUARDED = [
    (world, on)
    for world in WORLDS
    for on in ("session", "connection")
    if (world.name, on) != ("django-sqlite", "connection")
]


@pytest.mark.parametrize(("world", "on"), GUARDED, ids=str)
@pytest.mark.parametrize("ending", ["commit", "rollback", "close"])
async def test_ending_the_transaction_in_a_handler_is_refused_and_nothing_is_half_done(
    world: World, ending: str, on: str, place: Place, scope: str
) -> None:
    problems: list[Exception] = []

    async def end(event: duly.Event, hand: Hand) -> None:
        await hand.write(scope)
        target = getattr(hand.tx, on)
        try:
            await hand.waited(getattr(target, ending)())
        except duly.errors.UsageError as problem:
            problems.append(problem)
            raise

    async with opened(world, place.url, scope) as app:
        world.handle(app, scope, end)
        refused = await post(app, scope, signed(scope), "asgi")

    assert told(refused) == (500, "HANDLER_FAILED")
    assert "return to commit" in str(problems[0])
    assert (place.notes(scope), place.claims(scope)) == ([], [])


@everywhere
async def test_a_handler_that_swallows_the_refusal_is_committed_whole(
    world: World, place: Place, scope: str
) -> None:
    async def persist(event: duly.Event, hand: Hand) -> None:
        await hand.write(scope)
        with suppress(duly.errors.UsageError):
            hand.tx.session.commit()

    async with opened(world, place.url, scope) as app:
        world.handle(app, scope, persist)
        taken = await post(app, scope, signed(scope), "asgi")

    assert told(taken) == (200, "accepted")
    assert (place.notes(scope), place.claims(scope)) == ([scope], [scope])


@pytest.mark.parametrize("world", ALCHEMY, ids=str)
@pytest.mark.parametrize("ending", ["reset", "invalidate"])
async def test_letting_go_of_the_connection_in_a_handler_is_refused(
    world: World, ending: str, place: Place, scope: str
) -> None:
    problems: list[Exception] = []

    async def end(event: duly.Event, hand: Hand) -> None:
        await hand.write(scope)
        try:
            await hand.waited(getattr(hand.tx.session, ending)())
        except duly.errors.UsageError as problem:
            problems.append(problem)
            raise

    async with opened(world, place.url, scope) as app:
        world.handle(app, scope, end)
        refused = await post(app, scope, signed(scope), "asgi")

    assert told(refused) == (500, "HANDLER_FAILED")
    assert "session is ended by duly" in str(problems[0])
    assert (place.notes(scope), place.claims(scope)) == ([], [])


@everywhere
async def test_a_plain_rollback_statement_is_not_acknowledged(
    world: World, place: Place, scope: str
) -> None:
    async def end(event: duly.Event, hand: Hand) -> None:
        await hand.write(scope)
        if world.is_django:
            with hand.tx.session.cursor() as cursor:
                cursor.execute("ROLLBACK")
        else:
            await hand.waited(hand.tx.session.execute(text("ROLLBACK")))

    async with opened(world, place.url, scope) as app:
        world.handle(app, scope, end)
        refused = await post(app, scope, signed(scope), "asgi")

    assert told(refused) == (500, "HANDLER_FAILED")
    assert (place.notes(scope), place.claims(scope)) == ([], [])


@everywhere
async def test_tx_is_over_with_its_handler(world: World, place: Place, scope: str) -> None:
    kept: list[Any] = []

    async def keep(event: duly.Event, hand: Hand) -> None:
        kept.append(hand.tx)

    async with opened(world, place.url, scope) as app:
        world.handle(app, scope, keep)
        taken = await post(app, scope, signed(scope), "asgi")
        for name in ("session", "connection"):
            with pytest.raises(duly.errors.UsageError, match="over"):
                getattr(kept[0], name)

    assert told(taken) == (200, "accepted")


@pytest.mark.parametrize("world", ALCHEMY, ids=str)
async def test_objects_that_wait_for_their_flush_are_written_or_fail_with_the_claim(
    world: World, place: Place, scope: str
) -> None:
    async def add(event: duly.Event, hand: Hand) -> None:
        hand.tx.session.add(Note(scope=scope, note=scope))  # flushed by the commit only

    async with opened(world, place.url, scope) as app:
        world.handle(app, scope, add)
        taken = await post(app, scope, signed(f"{scope}-1"), "asgi")
        second = await post(app, scope, signed(f"{scope}-2", b'{"n":2}'), "asgi")

    assert told(taken) == (200, "accepted")
    assert told(second) == (500, "HANDLER_FAILED")
    assert (place.notes(scope), place.claims(scope)) == ([scope], [f"{scope}-1"])


@pytest.mark.parametrize("world", ALCHEMY[:1], ids=str)
async def test_the_listeners_of_a_session_hear_of_its_end(
    world: World, place: Place, scope: str
) -> None:
    heard: list[str] = []
    runs: list[str] = []

    async def fail_once(event: duly.Event, hand: Hand) -> None:
        runs.append(event.id)
        if len(runs) == 1:
            raise ValueError("not today")

    async with world.begin(place.url) as begin:
        assert isinstance(begin, sessionmaker)
        events.listen(begin, "after_rollback", lambda _: heard.append("rollback"))
        events.listen(begin, "after_commit", lambda _: heard.append("commit"))
        app = duly.Duly(begin=begin)
        app.source(scope, provider="standard-webhooks", secret="whsec_" + "A" * 32, inline=True)
        world.handle(app, scope, fail_once)
        await post(app, scope, signed(scope), "wsgi")
        await post(app, scope, signed(scope), "wsgi")
        app.close()

    assert heard.count("rollback") == 1
    assert heard[-1] == "commit"


@pytest.mark.parametrize("world", ALCHEMY, ids=str)
async def test_writes_through_a_second_engine_are_refused_and_reads_are_not(
    world: World, place: Place, scope: str, tmp_path: Path
) -> None:
    """Two engines have two COMMITs, and what only one of them keeps is lost."""
    url = f"sqlite:///{tmp_path / 'other.db'}" if place.is_sqlite else place.url
    async with world.begin(place.url) as begin, world.begin(url) as elsewhere:
        bind = elsewhere.kw["bind"]
        other = {"bind": getattr(bind, "sync_engine", bind)}
        app = made(begin, scope)

        async def use_both(event: duly.Event, hand: Hand) -> None:
            await hand.write(event.id)
            statements = ["SELECT 1"]
            if b"write" in event.body:
                statements += ["CREATE TABLE elsewhere (x INT)", "INSERT INTO elsewhere VALUES (1)"]
            for one in statements:
                await hand.waited(hand.tx.session.execute(text(one), bind_arguments=other))

        world.handle(app, scope, use_both)
        read = await post(app, scope, signed(f"{scope}-1", b'{"read":1}'), "asgi")
        written = await post(app, scope, signed(f"{scope}-2", b'{"write":1}'), "asgi")
        await app.aclose()
        app.close()

    assert (told(read), told(written)) == ((200, "accepted"), (500, "HANDLER_FAILED"))
    assert place.notes(scope) == place.claims(scope) == [f"{scope}-1"]
