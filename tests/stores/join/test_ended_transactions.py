"""Whoever ends the transaction inside ``once`` is told, and no statement goes astray."""

from datetime import timedelta
from typing import Any

import pytest

import duly
from tests.stores.join.places import WRITE, Place
from tests.stores.join.ways import ALL, Handle, Way

# psycopg and Django forbid it themselves.
ENDABLE = [way for way in ALL if not way.name.startswith(("psycopg", "django"))]
endable_ways = pytest.mark.parametrize("way", ENDABLE, ids=str)
every_way = pytest.mark.parametrize("way", ALL, ids=str)
LEASE = timedelta(minutes=1)


async def leave_with(user: Handle, scope: str, *, ends: str, result: str | None) -> None:
    async with user.once(scope, "evt") as turn:
        await user.execute(WRITE, {"scope": scope, "note": f"inside {scope}"})
        await getattr(user, ends)()
        if result is not None:
            turn.result = result


@endable_ways
@pytest.mark.parametrize("result", [None, "a result"])
async def test_a_commit_inside_once_is_reported_and_keeps_claim_and_work_together(
    way: Way, place: Place, scope: str, result: str | None
) -> None:
    async with way.open(place.url) as user:
        await user.begin()
        with pytest.raises(duly.errors.UsageError, match="end the transaction outside"):
            await leave_with(user, scope, ends="commit", result=result)
        assert place.claims(scope) == ["evt"]
        assert place.notes(scope) == [f"inside {scope}"]


@endable_ways
@pytest.mark.parametrize("result", [None, "a result"])
async def test_a_rollback_inside_once_is_reported_and_loses_claim_and_work_together(
    way: Way, place: Place, scope: str, result: str | None
) -> None:
    async with way.open(place.url) as user:
        await user.begin()
        with pytest.raises(duly.errors.UsageError, match="end the transaction outside"):
            await leave_with(user, scope, ends="rollback", result=result)
        assert (place.claims(scope), place.notes(scope)) == ([], [])
        await user.begin()
        assert (await user.dedup(scope, "evt")).first
        await user.rollback()


@every_way
async def test_a_lease_is_marked_in_the_users_last_transaction(
    way: Way, place: Place, scope: str
) -> None:
    async with way.open(place.url) as user:
        with duly.store(place.url) as store:
            leased = await take(way, store, scope)
            await mark(user, leased, "first try")
            await user.rollback()
            with pytest.raises(duly.errors.InProgress):
                duly.dedup(store, scope, "evt")
            await mark(user, leased, "done")
            await user.commit()
            answer = duly.dedup(store, scope, "evt")
            assert isinstance(answer, duly.Duplicate)
            assert answer.result == "done"
            await store.aclose()


async def take(way: Way, store: duly.types.Store, scope: str) -> Any:
    """A leased turn in the colour of the way, whose end is left to the test."""
    if way.colour == "sync":
        return duly.once(store, scope, "evt", lease=LEASE).__enter__()
    return await duly.aio.once(store, scope, "evt", lease=LEASE).__aenter__()


async def mark(user: Handle, leased: object, result: str) -> None:
    """Mark the lease in a transaction of the user's that is left open."""
    await user.begin()
    await user.mark(leased, result)
