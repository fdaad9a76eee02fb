"""In the user's transaction, through whatever they hold it: the message stays or goes with it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

import duly
from tests.stores.join.handles import BlockingHandle
from tests.stores.join.places import WRITE
from tests.stores.join.ways import ALL, Handle, Way

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from duly.outbox.message import Staged
    from tests.stores.join.places import Place

pytestmark = pytest.mark.slow  # many drivers in the same way
every_way = pytest.mark.parametrize("way", ALL, ids=str)
TOLD = [way for way in ALL if way.begins == "when told"]
POSTGRES = [way for way in ALL if way.store == "postgres"]


class Desk:
    """One application that sends through the user's connection, to a transport of its own name."""

    def __init__(self, app: duly.Duly, name: str, place: Place) -> None:
        self.app, self.name, self.place = app, name, place

    async def send(self, user: Handle, json: Any = None, **options: Any) -> Staged:
        """Stage, in the colour of the user's connection."""
        url = f"{self.name}:ann"
        if isinstance(user, BlockingHandle):
            staged: Staged = await user.call(
                lambda connection: self.app.send(url, json=json, tx=connection, **options)
            )
            return staged
        return await self.app.aio.send(url, json=json, tx=user.connection, **options)

    def messages(self) -> dict[str, bytes]:
        """What an outsider sees."""
        rows = self.place.rows(
            f"SELECT id, body FROM duly_outbox WHERE destination = '{self.name}'"
        )
        return {str(id): bytes(body) for id, body in rows}


def never(message: Any) -> None:
    """Nothing is sent here."""


@asynccontextmanager
async def a_desk(place: Place, scope: str) -> AsyncIterator[Desk]:
    """An application that joins and opens nothing of its own."""
    app = duly.Duly(place.url)
    name = f"t{scope[-30:]}"
    app.transport(name)(never)
    yield Desk(app, name, place)
    await app.aclose()
    app.close()


async def note(user: Handle, scope: str, text: str) -> None:
    """The user's own work; notes are unique over all tests."""
    await user.execute(WRITE, {"scope": scope, "note": f"{text} {scope}"})


@every_way
async def test_messages_are_committed_with_the_users_rows_and_a_duplicate_harms_nothing(
    way: Way, joined_place: Place, scope: str
) -> None:
    async with a_desk(joined_place, scope) as desk, way.open(joined_place.url) as user:
        await user.begin()
        await note(user, scope, "before")
        first = await desk.send(user, 1, key=scope)
        again = await desk.send(user, 2, key=scope)
        plain = await desk.send(user, 3)
        await note(user, scope, "after")
        assert (desk.messages(), joined_place.notes(scope)) == ({}, [])
        assert user.in_transaction()
        await user.commit()
        await user.begin()
        later = await desk.send(user, 4, key=scope)
        await note(user, scope, "later")
        await user.commit()

        assert (first.first, plain.first) == (True, True)
        assert again == later == (first.id, False)
        assert desk.messages() == {first.id: b"1", plain.id: b"3"}
        assert len(joined_place.notes(scope)) == 3


@every_way
async def test_messages_and_keys_are_rolled_back_with_the_users_rows(
    way: Way, joined_place: Place, scope: str
) -> None:
    async with a_desk(joined_place, scope) as desk, way.open(joined_place.url) as user:
        await user.begin()
        await note(user, scope, "lost")
        lost = await desk.send(user, 1, key=scope)
        await desk.send(user, 2)
        await user.rollback()
        left = desk.messages(), joined_place.notes(scope)
        await user.begin()
        fresh = await desk.send(user, 3, key=scope)
        await user.commit()

        assert left == ({}, [])
        assert fresh.first
        assert fresh.id != lost.id
        assert desk.messages() == {fresh.id: b"3"}


@every_way
async def test_a_savepoint_of_the_users_takes_its_message_with_it(
    way: Way, joined_place: Place, scope: str
) -> None:
    async with a_desk(joined_place, scope) as desk, way.open(joined_place.url) as user:
        await user.begin()
        kept = await desk.send(user, 1)
        with pytest.raises(LookupError):
            async with user.savepoint():
                await desk.send(user, 2, key=scope)
                raise LookupError
        again = await desk.send(user, 3, key=scope)
        await user.commit()

        assert again.first
        assert desk.messages() == {kept.id: b"1", again.id: b"3"}


@pytest.mark.parametrize("way", TOLD, ids=str)
async def test_a_connection_that_would_commit_by_itself_is_refused_before_anything_is_written(
    way: Way, joined_place: Place, scope: str
) -> None:
    async with a_desk(joined_place, scope) as desk, way.open(joined_place.url) as user:
        for key in (None, scope):
            with pytest.raises(duly.errors.NotJoinable, match=r"BEGIN IMMEDIATE|transaction"):
                await desk.send(user, 1, key=key)
        assert not user.in_transaction()
        assert desk.messages() == {}


@pytest.mark.parametrize("way", POSTGRES, ids=str)
async def test_a_failed_transaction_is_refused_until_it_is_rolled_back(
    way: Way, joined_place: Place, scope: str
) -> None:
    async with a_desk(joined_place, scope) as desk, way.open(joined_place.url) as user:
        await user.begin()
        with pytest.raises(Exception, match=r"(?i)division by zero"):
            await user.execute("SELECT 1 / 0")
        with pytest.raises(duly.errors.NotJoinable, match="failed"):
            await desk.send(user, 1)
        await user.rollback()
        await user.begin()
        kept = await desk.send(user, 2)
        await user.commit()
        assert desk.messages() == {kept.id: b"2"}


@every_way
async def test_the_wrong_colour_names_its_twin(way: Way, joined_place: Place, scope: str) -> None:
    async with a_desk(joined_place, scope) as desk, way.open(joined_place.url) as user:
        url = f"{desk.name}:ann"
        if way.colour == "async":
            with pytest.raises(duly.errors.SyncAsyncMismatch, match=r"await app\.aio\.send\b"):
                desk.app.send(url, tx=user.connection)
        else:
            with pytest.raises(duly.errors.SyncAsyncMismatch, match=r"use app\.send\b"):
                await desk.app.aio.send(url, tx=user.connection)
        assert desk.messages() == {}
