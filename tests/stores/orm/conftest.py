"""Each test that takes a ``world`` also gets a ``place``, a database of that world's store."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.stores.join.conftest import settled_postgres, settled_sqlite  # noqa: F401
from tests.stores.join.places import Place
from tests.stores.join.sqlite_handles import path_of
from tests.stores.orm.worlds import World, made

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import duly

CHILDREN = """CREATE TABLE IF NOT EXISTS children (
    parent text REFERENCES notes (note) DEFERRABLE INITIALLY DEFERRED)"""


@pytest.fixture
def place(world: World, request: pytest.FixtureRequest) -> Place:
    """A database with duly's tables and the user's."""
    if world.store == "postgres":
        found: Place = request.getfixturevalue("settled_postgres")
    else:
        found = Place(request.getfixturevalue("sqlite_url"))
        Path(path_of(found.url)).write_bytes(request.getfixturevalue("settled_sqlite"))
    found.run(CHILDREN)
    return found


@asynccontextmanager
async def opened(world: World, url: str, source: str, **options: Any) -> AsyncIterator[duly.Duly]:
    """An application in a world, closed at the end."""
    async with world.begin(url, **options) as begin:
        app = made(begin, source)
        try:
            yield app
        finally:
            await app.aclose()
            app.close()
