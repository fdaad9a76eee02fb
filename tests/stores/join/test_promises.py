"""In the user's transaction, through whatever they hold it: all stays, or all goes."""

from collections.abc import Awaitable, Callable

import pytest

from tests.stores.join.places import WRITE, Place
from tests.stores.join.ways import ALL, Handle, Way

ClaimVerb = Callable[[Handle, str], Awaitable[None]]
every_way = pytest.mark.parametrize("way", ALL, ids=str)
idle_ways = pytest.mark.parametrize(
    "way", [way for way in ALL if way.begins == "by itself"], ids=str
)


class Trouble(Exception):
    """An error of the user's own."""


async def write(user: Handle, scope: str, note: str) -> None:
    """The user's own work; notes are unique over all tests."""
    await user.execute(WRITE, {"scope": scope, "note": f"{note} {scope}"})


def written(place: Place, scope: str) -> list[str]:
    """The user's own work as an outsider sees it."""
    return [note.removesuffix(f" {scope}") for note in place.notes(scope)]


async def use_every_verb(user: Handle, scope: str) -> list[bool]:
    """Claim by every verb, with work in between; says of each whether it was first."""
    firsts = [(await user.dedup(scope, "a")).first]
    await write(user, scope, "one")
    firsts += [answer.first for answer in await user.dedup_many(scope, ["b", "c"])]
    async with user.once(scope, "d") as turn:
        firsts.append(turn.first)
        await write(user, scope, "two")
        turn.result = {"did": "work"}
    firsts.append(await user.newer("order-1", 7, scope=scope))
    return firsts


@pytest.mark.promise("one transaction")
@every_way
async def test_commit_keeps_the_claims_and_the_users_rows(
    way: Way, place: Place, scope: str
) -> None:
    async with way.open(place.url) as user:
        await user.begin()
        assert await use_every_verb(user, scope) == [True] * 5
        assert (place.claims(scope), written(place, scope)) == ([], [])
        assert user.in_transaction()
        await user.commit()
    assert place.claims(scope) == ["a", "b", "c", "d"]
    assert written(place, scope) == ["one", "two"]


@pytest.mark.promise("one transaction")
@every_way
async def test_rollback_loses_the_claims_and_the_users_rows(
    way: Way, place: Place, scope: str
) -> None:
    async with way.open(place.url) as user:
        await user.begin()
        await use_every_verb(user, scope)
        await user.rollback()
        assert (place.claims(scope), written(place, scope)) == ([], [])
        await user.begin()
        assert await use_every_verb(user, scope) == [True] * 5
        await user.commit()
    assert written(place, scope) == ["one", "two"]


@every_way
async def test_a_duplicate_sees_the_stored_result(way: Way, place: Place, scope: str) -> None:
    async with way.open(place.url) as user:
        await user.begin()
        async with user.once(scope, "evt") as turn:
            turn.result = {"charged": ["5.00", None, "\0"]}
        async with user.once(scope, "evt") as again:
            assert again.result == {"charged": ["5.00", None, "\0"]}
        await user.commit()
        await user.begin()
        async with user.once(scope, "evt") as later:
            assert later.duplicate
            assert later.result == {"charged": ["5.00", None, "\0"]}
        await user.rollback()


@every_way
async def test_a_swallowed_error_inside_once_leaves_neither_claim_nor_half_work(
    way: Way, place: Place, scope: str
) -> None:
    async with way.open(place.url) as user:
        await user.begin()
        await write(user, scope, "before")
        with pytest.raises(Trouble):
            async with user.once(scope, "evt") as turn:
                await write(user, scope, "half")
                turn.result = "half"
                raise Trouble
        assert user.in_transaction()
        await write(user, scope, "after")
        assert (await user.dedup(scope, "other")).first
        await user.commit()
    assert place.claims(scope) == ["other"]
    assert written(place, scope) == ["after", "before"]


@every_way
async def test_an_error_of_the_database_inside_once_is_undone_with_it(
    way: Way, place: Place, scope: str
) -> None:
    async with way.open(place.url) as user:
        await user.begin()
        await write(user, scope, "same")
        with pytest.raises(Exception, match=r"(?i)unique"):
            async with user.once(scope, "evt"):
                await write(user, scope, "half")
                await write(user, scope, "same")
        async with user.once(scope, "evt") as turn:
            assert turn.first
            await write(user, scope, "whole")
        await user.commit()
    assert place.claims(scope) == ["evt"]
    assert written(place, scope) == ["same", "whole"]


@every_way
async def test_an_error_in_a_savepoint_of_the_users_own_inside_once_is_theirs_alone(
    way: Way, place: Place, scope: str
) -> None:
    async with way.open(place.url) as user:
        await user.begin()
        async with user.once(scope, "evt") as turn:
            await write(user, scope, "kept")
            with pytest.raises(Exception, match=r"(?i)unique"):
                async with user.savepoint():
                    await write(user, scope, "lost")
                    await write(user, scope, "kept")
            turn.result = "done"
        await user.commit()
    assert place.claims(scope) == ["evt"]
    assert written(place, scope) == ["kept"]


@every_way
async def test_a_savepoint_of_the_users_own_takes_its_claims_with_it(
    way: Way, place: Place, scope: str
) -> None:
    async with way.open(place.url) as user:
        await user.begin()
        await user.dedup(scope, "kept")
        with pytest.raises(Trouble):
            async with user.savepoint():
                await user.dedup(scope, "lost")
                async with user.once(scope, "lost too"):
                    await write(user, scope, "lost")
                raise Trouble
        assert (await user.dedup(scope, "lost")).first
        await user.commit()
    assert place.claims(scope) == ["kept", "lost"]
    assert written(place, scope) == []


@every_way
async def test_an_inner_once_fails_without_its_outer_one(
    way: Way, place: Place, scope: str
) -> None:
    async with way.open(place.url) as user:
        await user.begin()
        async with user.once(scope, "outer") as outer:
            with pytest.raises(Trouble):
                async with user.once(scope, "inner"):
                    await write(user, scope, "inner")
                    raise Trouble
            async with user.once(scope, "second") as second:
                second.result = 2
            outer.result = 1
        await user.commit()
    assert place.claims(scope) == ["outer", "second"]
    assert written(place, scope) == []


@every_way
async def test_an_outer_once_takes_its_inner_one_with_it(
    way: Way, place: Place, scope: str
) -> None:
    async with way.open(place.url) as user:
        await user.begin()
        with pytest.raises(Trouble):
            async with user.once(scope, "outer"):
                async with user.once(scope, "inner"):
                    await write(user, scope, "inner")
                raise Trouble
        await user.dedup(scope, "other")
        await user.commit()
    assert place.claims(scope) == ["other"]
    assert written(place, scope) == []


async def claim_by_dedup(user: Handle, scope: str) -> None:
    assert (await user.dedup(scope, "evt")).first


async def claim_by_batch(user: Handle, scope: str) -> None:
    assert [answer.first for answer in await user.dedup_many(scope, ["evt"])] == [True]


async def claim_by_once(user: Handle, scope: str) -> None:
    async with user.once(scope, "evt") as turn:
        assert turn.first


idle_verbs = pytest.mark.parametrize(
    "claim", [claim_by_dedup, claim_by_batch, claim_by_once], ids=lambda claim: claim.__name__
)


@idle_ways
@idle_verbs
async def test_on_an_idle_connection_the_users_rollback_undoes_the_claim(
    way: Way, place: Place, scope: str, claim: ClaimVerb
) -> None:
    async with way.open(place.url) as user:
        await claim(user, scope)
        assert user.in_transaction()
        assert place.claims(scope) == []
        await user.rollback()
        assert place.claims(scope) == []
        await claim(user, scope)
        await user.rollback()


@idle_ways
@idle_verbs
async def test_on_an_idle_connection_the_users_commit_keeps_the_claim(
    way: Way, place: Place, scope: str, claim: ClaimVerb
) -> None:
    async with way.open(place.url) as user:
        await claim(user, scope)
        await user.commit()
    assert place.claims(scope) == ["evt"]
