"""Work and claim stay or go together, whoever opened the transaction."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import pytest

from duly.core.defaults import WAIT
from duly.inbox.new_event import event_digest
from tests.stores.orm.conftest import opened
from tests.stores.orm.worlds import ON_POSTGRES, WORLDS, Hand, World, post, signed

if TYPE_CHECKING:
    import duly
    from tests.stores.join.places import Place

pytestmark = pytest.mark.slow

SERVERS = ("asgi", "wsgi")
everywhere = pytest.mark.parametrize("world", WORLDS, ids=str)
on_postgres = pytest.mark.parametrize("world", ON_POSTGRES, ids=str)
each_server = pytest.mark.parametrize("server", SERVERS)
# As somebody leaves it who is receiving the same event; and they give up long after the bound.
CLAIM = """INSERT INTO duly_claims (scope, digest, key_text, first_seen, state, epoch)
VALUES (%s, %s, %s, clock_timestamp(), 'done', 1)"""
GIVES_UP = "SET idle_in_transaction_session_timeout = '8s'"
TX_WRITE = "INSERT INTO notes (scope, note) VALUES (:scope, :note)"


def told(answer: Any) -> tuple[int, str]:
    """The status of an answer and its word."""
    found = answer.json()
    return answer.status_code, found.get("status") or found["error"]


@everywhere
@each_server
async def test_what_a_handler_writes_is_committed_with_the_claim(
    world: World, server: str, place: Place, scope: str
) -> None:
    async def write(event: duly.Event, hand: Hand) -> None:
        await hand.write(f"{event.id}-session")
        await hand.execute(TX_WRITE, scope=scope, note=f"{event.id}-tx")

    async with opened(world, place.url, scope) as app:
        world.handle(app, scope, write)
        first = await post(app, scope, signed(scope), server)
        copy = await post(app, scope, signed(scope), server)

    assert told(first) == (200, "accepted")
    assert told(copy) == (200, "duplicate")
    assert place.notes(scope) == [f"{scope}-session", f"{scope}-tx"]
    assert place.claims(scope) == [scope]


@everywhere
@each_server
async def test_an_inline_source_without_handlers_records_what_comes(
    world: World, server: str, place: Place, scope: str
) -> None:
    async with opened(world, place.url, scope) as app:
        taken = await post(app, scope, signed(scope), server)

    assert told(taken) == (200, "ignored")
    assert place.claims(scope) == [scope]


@everywhere
@each_server
async def test_a_handler_that_raises_leaves_nothing_and_the_retry_works(
    world: World, server: str, place: Place, scope: str
) -> None:
    runs: list[str] = []

    async def fail_once(event: duly.Event, hand: Hand) -> None:
        runs.append(event.id)
        await hand.write(f"{scope}-session")
        await hand.execute(TX_WRITE, scope=scope, note=f"{scope}-tx")
        if len(runs) == 1:
            raise ValueError("not today")

    async with opened(world, place.url, scope) as app:
        world.handle(app, scope, fail_once)
        failed = await post(app, scope, signed(scope), server)
        left = place.notes(scope), place.claims(scope)
        retried = await post(app, scope, signed(scope), server)

    assert told(failed) == (500, "HANDLER_FAILED")
    assert left == ([], [])
    assert told(retried) == (200, "accepted")
    assert place.claims(scope) == [scope]


@everywhere
@each_server
async def test_concurrent_copies_run_the_handler_once(
    world: World, server: str, place: Place, scope: str
) -> None:
    async def write(event: duly.Event, hand: Hand) -> None:
        await hand.write(scope)  # unique: a second run would fail

    async with opened(world, place.url, scope) as app:
        world.handle(app, scope, write)
        sent = signed(scope)
        if server == "wsgi":  # each on a thread of its own, as a server would have it
            posts = [
                asyncio.to_thread(asyncio.run, post(app, scope, sent, server)) for _ in "12345"
            ]
        else:
            posts = [post(app, scope, sent, server) for _ in "12345"]
        answers = [told(answer) for answer in await asyncio.gather(*posts)]

    assert sorted(answers) == [(200, "accepted"), *[(200, "duplicate")] * 4]
    assert place.notes(scope) == [scope]


@everywhere
async def test_an_error_when_the_session_is_flushed_leaves_nothing(
    world: World, place: Place, scope: str
) -> None:
    place.run(f"INSERT INTO notes VALUES ('other', '{scope}')")

    async def write_twice(event: duly.Event, hand: Hand) -> None:
        await hand.execute(TX_WRITE, scope=scope, note=f"{scope}-tx")
        await hand.write(scope)

    async with opened(world, place.url, scope) as app:
        world.handle(app, scope, write_twice)
        failed = await post(app, scope, signed(scope), "asgi")

    assert told(failed) == (500, "HANDLER_FAILED")
    assert (place.notes(scope), place.claims(scope)) == ([], [])


@pytest.mark.parametrize(
    "world", [one for one in WORLDS if one.store == "postgres" or one.is_django], ids=str
)
@each_server
async def test_an_error_at_the_commit_leaves_nothing_and_is_the_handlers(
    world: World, server: str, place: Place, scope: str
) -> None:
    async def orphan(event: duly.Event, hand: Hand) -> None:
        await hand.write(scope)
        await hand.execute("INSERT INTO children VALUES (:parent)", parent=f"{scope}-nobody")

    async with opened(world, place.url, scope) as app:
        world.handle(app, scope, orphan)
        failed = await post(app, scope, signed(scope), server)

    assert told(failed) == (500, "HANDLER_FAILED")
    assert "committed" in failed.json()["reason"]
    assert (place.notes(scope), place.claims(scope)) == ([], [])


@on_postgres
@pytest.mark.parametrize("through", ["session", "tx"])
async def test_an_error_that_a_handler_swallows_is_not_acknowledged(
    world: World, through: str, place: Place, scope: str
) -> None:
    place.run(f"INSERT INTO notes VALUES ('other', '{scope}')")

    async def swallow(event: duly.Event, hand: Hand) -> None:
        await hand.write(f"{scope}-before")
        with suppress(Exception):  # as people do: PostgreSQL then rolls back at COMMIT
            if through == "session":
                await hand.write(scope)
            else:
                await hand.execute(TX_WRITE, scope=scope, note=scope)

    async with opened(world, place.url, scope) as app:
        world.handle(app, scope, swallow)
        failed = await post(app, scope, signed(scope), "asgi")

    assert told(failed) == (500, "HANDLER_FAILED")
    assert (place.notes(scope), place.claims(scope)) == ([], [])


@on_postgres
@each_server
async def test_a_connection_lost_under_a_handler_is_503_and_the_next_delivery_works(
    world: World, server: str, place: Place, scope: str
) -> None:
    runs: list[str] = []

    async def lose(event: duly.Event, hand: Hand) -> None:
        runs.append(event.id)
        [row] = await hand.execute("SELECT pg_backend_pid() AS pid")
        if len(runs) == 1:
            place.run(f"SELECT pg_terminate_backend({row['pid']})")
        await hand.write(scope)

    pooled = {"CONN_MAX_AGE": None} if world.is_django else {"pool_size": 1, "max_overflow": 0}
    if world.colour == "async" and server == "wsgi":
        pooled = {}  # a pool of duly's own loop would have to be disposed of there
    async with opened(world, place.url, scope, **pooled) as app:
        world.handle(app, scope, lose)
        lost = await post(app, scope, signed(scope), server)
        again = await post(app, scope, signed(scope), server)

    assert told(lost) == (503, "STORE_UNAVAILABLE")
    assert lost.headers["retry-after"] == "1"
    assert told(again) == (200, "accepted")
    assert place.notes(scope) == [scope]


@on_postgres
async def test_a_copy_waits_no_longer_than_the_bound_for_whoever_receives_the_event(
    world: World, place: Place, scope: str
) -> None:
    async def write(event: duly.Event, hand: Hand) -> None:
        await hand.write(scope)

    async with opened(world, place.url, scope) as app:
        world.handle(app, scope, write)
        with closing(place.connect()) as other:
            other.execute(GIVES_UP)
            other.execute("BEGIN")
            other.execute(CLAIM, [scope, event_digest(scope, scope), scope])
            begun = time.monotonic()
            held = await post(app, scope, signed(scope), "asgi")
            waited = time.monotonic() - begun
        again = await post(app, scope, signed(scope), "asgi")

    assert told(held) == (503, "HELD")
    assert waited < 2 * WAIT.total_seconds()
    assert told(again) == (200, "accepted")
    assert place.notes(scope) == [scope]
