"""A database that never answers keeps no delivery, no connection and no turn of the ORM's pool."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from tests.stores.orm.test_promises import told
from tests.stores.orm.worlds import ON_POSTGRES, WORLDS, Hand, World, made, post, signed
from tests.support.proxies import Cut, Proxy, proxy

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from tests.stores.join.places import Place

pytestmark = pytest.mark.slow

# As many inline handlers run at a time: connections= less what is kept for everything else.
AT_ONCE = 6
ASKED = "SELECT current_setting('idle_in_transaction_session_timeout') AS bound"
on_postgres = pytest.mark.parametrize("world", ON_POSTGRES, ids=str)


def through(world: World, wire: Proxy, **options: Any) -> AbstractAsyncContextManager[Any]:
    """The ORM of a world over the wire, which can read only what is not encrypted."""
    if world.is_django:
        return world.begin(wire.url, OPTIONS={"sslmode": "disable", "gssencmode": "disable"})
    url = wire.url
    if world.driver == "asyncpg":
        url = url.replace("sslmode=disable&gssencmode=disable", "ssl=disable")
    return world.begin(url, **options)


def delivery(scope: str, number: int) -> duly.types.Signed:
    return signed(f"{scope}-{number}", b'{"n":%d}' % number)


@on_postgres
async def test_commits_that_are_never_answered_do_not_end_the_intake(
    world: World, place: Place, scope: str
) -> None:
    async def write(event: duly.Event, hand: Hand) -> None:
        await hand.write(event.id)

    with proxy(place.url) as wire:
        # duly's own connections go straight to the server: only those of the ORM are in the hole.
        async with through(world, wire, pool_size=AT_ONCE + 1) as begin:
            app = made(begin, scope, place.url, deadline=timedelta(seconds=1))
            world.handle(app, scope, write)
            first = await post(app, scope, delivery(scope, 0), "asgi")
            trap = wire.set(Cut.HOLE, "COMMIT", AT_ONCE)
            silent = await asyncio.gather(
                *(post(app, scope, delivery(scope, n), "asgi") for n in range(1, AT_ONCE + 1))
            )
            later = await post(app, scope, delivery(scope, AT_ONCE + 1), "asgi")
            again = await post(app, scope, delivery(scope, 1), "asgi")
            await app.aclose()
            app.close()

    assert trap.sprung == AT_ONCE
    assert told(first) == told(later) == (200, "accepted")
    assert {told(one) for one in silent} == {(503, "STORE_UNAVAILABLE")}
    assert told(again) == (200, "duplicate")  # it was committed, and nobody had heard of it
    assert place.notes(scope) == sorted(f"{scope}-{n}" for n in range(AT_ONCE + 2))


@on_postgres
async def test_a_claim_that_is_never_answered_is_given_up_at_the_senders_deadline(
    world: World, place: Place, scope: str
) -> None:
    async def nothing(event: duly.Event, hand: Hand) -> None: ...

    with proxy(place.url) as wire:
        async with through(world, wire) as begin:
            app = made(begin, scope, place.url, deadline=timedelta(seconds=1))
            world.handle(app, scope, nothing)
            first = await post(app, scope, delivery(scope, 0), "asgi")
            trap = wire.set(Cut.HOLE, "INSERT 0 1")
            silent = await post(app, scope, delivery(scope, 1), "asgi")
            await app.aclose()
            app.close()

    assert (trap.sprung, told(first)) == (1, (200, "accepted"))
    assert told(silent) == (503, "STORE_UNAVAILABLE")


@on_postgres
async def test_an_inline_handler_that_waits_for_ever_is_ended_at_its_timeout(
    world: World, place: Place, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.stores.orm.deadlines.SLACK", 0.0)

    async def sleep(event: duly.Event, hand: Hand) -> None:
        await hand.write(event.id)
        await hand.execute("SELECT pg_sleep(600)")

    async with world.begin(place.url) as begin:
        app = made(begin, scope)
        world.handle(app, scope, sleep, timeout=timedelta(seconds=1))
        refused = await post(app, scope, delivery(scope, 0), "asgi")
        await app.aclose()
        app.close()

    assert told(refused) == (500, "HANDLER_FAILED")
    assert (place.notes(scope), place.claims(scope)) == ([], [])


@pytest.mark.parametrize("slack", [0.0, 3.0])
@pytest.mark.parametrize("world", WORLDS, ids=str)
async def test_a_handler_that_returns_too_late_has_failed_and_the_database_has_not(
    world: World, slack: float, place: Place, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for something else, or swallowed its cancellation: the store is well.

    Without the slack duly ends it, with the slack PostgreSQL ends its idle transaction first.
    """
    monkeypatch.setattr("duly.stores.orm.deadlines.SLACK", slack)

    async def dawdle(event: duly.Event, hand: Hand) -> None:
        await hand.write(event.id)
        if world.colour == "sync":
            time.sleep(1)  # noqa: ASYNC251  # on a thread of its own
        else:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(1)

    async with world.begin(place.url) as begin:
        app = made(begin, scope)
        world.handle(app, scope, dawdle, timeout=timedelta(seconds=0.3))
        refused = await post(app, scope, delivery(scope, 0), "asgi")
        await app.aclose()
        app.close()

    if place.is_sqlite and slack:  # nobody has ended it
        assert told(refused) == (200, "accepted")
        return
    assert told(refused) == (500, "HANDLER_FAILED")
    assert (place.notes(scope), place.claims(scope)) == ([], [])


async def test_the_server_ends_an_inline_transaction_that_is_left_idle(
    postgres_url: str, scope: str
) -> None:
    """A `duly serve` that was stopped keeps its event no longer than the handler may take."""
    app = duly.Duly(postgres_url)
    app.source(scope, provider="standard-webhooks", secret="whsec_" + "A" * 32, inline=True)
    found: list[str] = []

    @app.on(scope, "usual", name="usual")
    @app.on(scope, "short", name="short", timeout=timedelta(seconds=7))
    async def look(event: duly.Event, tx: Any) -> None:
        [row] = await tx.execute(ASKED)
        found.append(row["bound"])

    for kind in (b"usual", b"short"):
        sent = signed(f"{scope}-{kind.decode()}", b'{"type":"%s"}' % kind)
        assert told(await post(app, scope, sent, "asgi")) == (200, "accepted")
    await app.aclose()
    app.close()

    assert found == ["30s", "7s"]
