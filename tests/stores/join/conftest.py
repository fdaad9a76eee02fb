"""Each test that takes a ``way`` also gets a ``place``, a database of that way's store."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.stores.join.places import Place, settle_in
from tests.stores.join.sqlite_handles import path_of
from tests.stores.join.ways import Way


@pytest.fixture(scope="session")
def settled_postgres(postgres_url: str) -> Place:
    """The process's database; tests keep apart by their scope."""
    return settle_in(postgres_url)


@pytest.fixture(scope="session")
def settled_sqlite(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a settled file: copying them is quicker than migrating."""
    path = tmp_path_factory.mktemp("settled") / "duly.db"
    place = settle_in(f"sqlite:///{path}")
    with closing(place.connect()) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.read_bytes()


@pytest.fixture
def place(way: Way, request: pytest.FixtureRequest) -> Place:
    """A database with duly's tables and the user's, for the way's store."""
    if way.store == "postgres":
        settled: Place = request.getfixturevalue("settled_postgres")
        return settled
    url: str = request.getfixturevalue("sqlite_url")
    Path(path_of(url)).write_bytes(request.getfixturevalue("settled_sqlite"))
    return Place(url)


@pytest.fixture
def empty_place(way: Way, request: pytest.FixtureRequest) -> Iterator[Place]:
    """A database without any table, for the way's store."""
    if way.store == "postgres":
        yield Place(request.getfixturevalue("empty_postgres_url"))
        return
    place = Place(request.getfixturevalue("sqlite_url"))
    place.run("PRAGMA journal_mode = WAL")
    yield place
