"""What an ORM commits is acknowledged by duly, so it must be on the disk by then."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.db.backends.signals import connection_created
from sqlalchemy import Engine, event

from tests.stores.orm.test_promises import told
from tests.stores.orm.test_refusals import nothing
from tests.stores.orm.worlds import WORLDS, World, made, post, signed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.stores.join.places import Place

pytestmark = pytest.mark.slow

# asyncpg takes settings of its own, and needs no cursor for them: the check is the same.
TRIED = [world for world in WORLDS if world.driver != "asyncpg"]
everywhere = pytest.mark.parametrize("world", TRIED, ids=str)
WEAK = {"sqlite": "PRAGMA synchronous = NORMAL", "postgres": "SET synchronous_commit = off"}
STRONG = {"sqlite": "PRAGMA synchronous = EXTRA", "postgres": "SET synchronous_commit = local"}


@contextmanager
def saying(statement: str) -> Iterator[None]:
    """Have every connection of an ORM begin with a statement, as people set such things."""

    def in_sqlalchemy(connection: Any, _: object) -> None:
        cursor = connection.cursor()
        cursor.execute(statement)
        cursor.close()
        connection.commit()

    def in_django(connection: Any, **_: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute(statement)

    event.listen(Engine, "connect", in_sqlalchemy)
    connection_created.connect(in_django)
    try:
        yield
    finally:
        event.remove(Engine, "connect", in_sqlalchemy)
        connection_created.disconnect(in_django)


async def answered(world: World, place: Place, scope: str, **options: Any) -> tuple[int, str]:
    """What an inline delivery is told."""
    async with world.begin(place.url) as begin:
        app = made(begin, scope, **options)
        world.handle(app, scope, nothing)
        answer = await post(app, scope, signed(scope), "asgi")
        await app.aclose()
        app.close()
    return told(answer)


@pytest.mark.promise("power cut")
@everywhere
async def test_an_orm_whose_commits_do_not_wait_for_the_disk_is_refused_with_the_remedy(
    world: World, place: Place, scope: str, caplog: pytest.LogCaptureFixture
) -> None:
    with saying(WEAK[world.store]):
        assert await answered(world, place, scope) == (503, "STORE_UNAVAILABLE")
    assert "synchronous" in caplog.text
    assert 'durability="any"' in caplog.text
    assert place.claims(scope) == []


@everywhere
async def test_whoever_accepts_the_loss_may_have_it(world: World, place: Place, scope: str) -> None:
    with saying(WEAK[world.store]):
        assert await answered(world, place, scope, durability="any") == (200, "accepted")


@everywhere
async def test_a_setting_that_waits_for_this_disk_is_enough(
    world: World, place: Place, scope: str
) -> None:
    with saying(STRONG[world.store]):
        assert await answered(world, place, scope) == (200, "accepted")
