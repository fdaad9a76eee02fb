"""A wait that is over costs the user nothing but the answer: their transaction goes on."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta

import pytest

import duly
from tests.stores.join.places import WRITE, Place
from tests.stores.join.ways import ALL, Handle, Way

Verb = Callable[[Handle, str], Awaitable[None]]
SHORT = timedelta(milliseconds=60)
BOUND = {
    "sqlite": ("PRAGMA busy_timeout = 7000", "PRAGMA busy_timeout"),
    "postgres": ("SET LOCAL lock_timeout = '7s'", "SHOW lock_timeout"),
}

every_way = pytest.mark.parametrize("way", ALL, ids=str)
sqlite_ways = pytest.mark.parametrize("way", [way for way in ALL if way.store == "sqlite"], ids=str)
idle_sqlite_ways = pytest.mark.parametrize(
    "way", [way for way in ALL if way.store == "sqlite" and way.begins == "by itself"], ids=str
)


async def dedup(user: Handle, scope: str) -> None:
    await user.dedup(scope, "evt", wait=SHORT)


async def dedup_many(user: Handle, scope: str) -> None:
    await user.dedup_many(scope, ["aaa", "evt", "zzz"], wait=SHORT)


async def once(user: Handle, scope: str) -> None:
    async with user.once(scope, "evt", wait=SHORT):
        pytest.fail("the turn is somebody else's")


verbs = pytest.mark.parametrize("verb", [dedup, dedup_many, once], ids=lambda verb: verb.__name__)


@every_way
@verbs
async def test_a_wait_that_is_over_raises_held_and_the_transaction_goes_on(
    way: Way, place: Place, scope: str, verb: Verb
) -> None:
    set_bound, read_bound = BOUND[way.store]
    async with way.open(place.url) as user:
        await user.begin()
        await user.execute(set_bound)
        before = await user.fetch(read_bound)
        with place.held(scope, "evt"), pytest.raises(duly.errors.InProgress):
            await verb(user, scope)
        assert await user.fetch(read_bound) == before
        assert user.in_transaction() or way.store == "sqlite"
        await user.execute(WRITE, {"scope": scope, "note": f"after {scope}"})
        assert (await user.dedup(scope, "evt")).first
        await user.commit()
    assert place.claims(scope) == ["evt"]
    assert place.notes(scope) == [f"after {scope}"]


@every_way
async def test_a_wait_that_was_not_needed_leaves_the_users_bound_as_it_was(
    way: Way, place: Place, scope: str
) -> None:
    set_bound, read_bound = BOUND[way.store]
    async with way.open(place.url) as user:
        await user.begin()
        await user.execute(set_bound)
        before = await user.fetch(read_bound)
        await user.dedup(scope, "one", wait=SHORT)
        await user.dedup_many(scope, ["two"], wait=SHORT)
        async with user.once(scope, "three", wait=SHORT) as turn:
            assert await user.fetch(read_bound) == before
            turn.result = 3
        assert await user.fetch(read_bound) == before
        await user.rollback()


@idle_sqlite_ways
@verbs
async def test_an_idle_connection_waits_for_the_write_lock_no_longer_than_told(
    way: Way, place: Place, scope: str, verb: Verb
) -> None:
    async with way.open(place.url) as user:
        await user.execute("PRAGMA busy_timeout = 7000")
        with place.held(scope, "evt"), pytest.raises(duly.errors.InProgress):
            await verb(user, scope)
        assert await user.fetch("PRAGMA busy_timeout") == [(7000,)]
        await user.execute(WRITE, {"scope": scope, "note": f"after {scope}"})
        await user.commit()
    assert place.notes(scope) == [f"after {scope}"]


@sqlite_ways
@verbs
async def test_a_stale_snapshot_is_explained(
    way: Way, place: Place, scope: str, verb: Verb
) -> None:
    async with way.open(place.url) as user:
        await user.begin()
        # SQLAlchemy has begun nothing on SQLite yet; the others have, and say so.
        with suppress(Exception):
            await user.execute("BEGIN")
        await user.fetch("SELECT count(*) FROM notes")
        place.run(f"INSERT INTO notes (scope, note) VALUES ('{scope}', 'theirs {scope}')")
        with pytest.raises(duly.errors.StaleSnapshot, match="BEGIN IMMEDIATE"):
            await verb(user, scope)
        assert await user.fetch("SELECT count(*) FROM notes") == [(0,)]
        await user.rollback()
        await user.begin()
        assert (await user.dedup(scope, "evt")).first
        await user.commit()
    assert place.claims(scope) == ["evt"]
