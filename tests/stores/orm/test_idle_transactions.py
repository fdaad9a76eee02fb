"""A handler's transaction on PostgreSQL is not left idle for longer than its job may last."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.core.defaults import WAIT
from duly.core.onestep import finish
from tests.stores.orm.conftest import opened
from tests.stores.orm.worlds import WORLDS, World

if TYPE_CHECKING:
    from tests.stores.join.places import Place

pytestmark = pytest.mark.slow

ASKED = "SELECT current_setting('idle_in_transaction_session_timeout') AS bound"
ON_POSTGRES = [world for world in WORLDS if world.store == "postgres" and not world.is_django]


async def bound_in(opener: Any) -> str:
    async with opener.open_transaction(wait=WAIT, lasting=timedelta(seconds=7)) as found:
        [row] = await found.session.execute(ASKED, {})
    return str(row["bound"])


@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_in_a_transaction_of_dulys_own(colour: str, postgres_url: str) -> None:
    async with duly.store(postgres_url) as store:
        assert await bound_in(store.sync_runner if colour == "sync" else store.async_runner) == "7s"
        store.close()


@pytest.mark.parametrize("world", ON_POSTGRES, ids=str)
def test_in_a_transaction_of_an_orm(world: World, place: Place) -> None:
    import asyncio

    async def awaited() -> str:
        async with opened(world, place.url, "shop") as app:
            return await bound_in(app.process.opener)

    if world.colour == "async":
        assert asyncio.run(awaited()) == "7s"
        return
    opening = opened(world, place.url, "shop")
    app = asyncio.run(opening.__aenter__())
    try:
        assert finish(bound_in(app.process.opener)) == "7s"
    finally:
        asyncio.run(opening.__aexit__(None, None, None))
