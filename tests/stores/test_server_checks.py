"""A PostgreSQL server that could lose what it acknowledged is refused, unless told otherwise."""

import asyncio
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from signal import Signals

import psycopg
import pytest
from psycopg import sql

import duly
from duly.stores.postgres.connect import OLDEST, ServerInfo, refuse_unsafe
from tests.support.servers.databases import database_of
from tests.support.servers.postgresql import Postgres, find, origins, url_at
from tests.support.servers.running import Missing, Place, running

TRUSTED = ServerInfo(version=OLDEST, standby=False, fsync=True, synchronous_commit=True, process=1)


@dataclass(frozen=True, slots=True)
class Altered:
    """The tests' own PostgreSQL, started with something changed."""

    usual: Postgres
    settings: tuple[str, ...] = ()
    standby: bool = False

    name = "postgres"

    @property
    def stop_signal(self) -> Signals:
        return self.usual.stop_signal

    @property
    def comes_back(self) -> bool:
        return self.usual.comes_back

    def commands(self, place: Place) -> list[list[str]]:
        make, serve = self.usual.commands(place)
        # A server with this file waits for its primary's log, read-only, for ever.
        follow = ["touch", str(place.folder / "data" / "standby.signal")]
        changed = [part for setting in self.settings for part in ("-c", setting)]
        return [make, *([follow] if self.standby else []), [*serve, *changed]]

    def answers(self, place: Place) -> bool:
        return self.usual.answers(place)


def altered(settings: tuple[str, ...] = (), *, standby: bool = False) -> Iterator[str]:
    found = find(origins(os.environ))
    if isinstance(found, Missing):
        pytest.skip(str(found))
    with running(Altered(found, settings, standby)) as server:
        yield url_at(server.place)


@pytest.fixture
def standby_url() -> Iterator[str]:
    yield from altered(standby=True)


@pytest.fixture
def unsynced_url() -> Iterator[str]:
    yield from altered(("fsync=off",))


def set_for_database(url: str, setting: str) -> None:
    with psycopg.connect(url) as connection:
        name = sql.Identifier(database_of(url))
        connection.execute(sql.SQL("ALTER DATABASE {} SET ").format(name) + sql.SQL(setting))


def open_it(url: str, durability: str) -> None:
    with duly.store(url, durability=durability):
        pass


def use_it(url: str, durability: str) -> None:
    store = duly.store(url, durability=durability)
    try:
        duly.dedup(store, "scope", "key")
    finally:
        store.close()


def await_it(url: str, durability: str) -> None:
    async def use() -> None:
        async with duly.store(url, durability=durability) as store:
            await duly.aio.dedup(store, "scope", "key")

    asyncio.run(use())


def migrate_it(url: str, durability: str) -> None:
    duly.store(url, durability=durability).migrate()


Use = Callable[[str, str], None]
USES: list[Use] = [open_it, use_it, await_it, migrate_it]


@pytest.mark.promise("power cut")
def test_a_standby_is_refused_whatever_durability_says(standby_url: str) -> None:
    for use in USES:
        for durability in ("required", "any"):
            with pytest.raises(duly.errors.UnsafeStore, match=r"is a standby .* use the primary's"):
                use(standby_url, durability)


@pytest.mark.promise("power cut")
def test_a_server_without_fsync_is_refused_unless_any_durability_will_do(
    unsynced_url: str,
) -> None:
    for use in USES:
        with pytest.raises(duly.errors.UnsafeStore, match=r'fsync = off.*durability="any"'):
            use(unsynced_url, "required")
    migrate_it(unsynced_url, "any")
    for use in USES:
        use(unsynced_url, "any")


@pytest.mark.promise("power cut")
@pytest.mark.parametrize("use", USES)
def test_a_database_without_synchronous_commit_is_refused_unless_any_durability_will_do(
    own_postgres_url: str, use: Use
) -> None:
    use(own_postgres_url, "required")
    set_for_database(own_postgres_url, "synchronous_commit = off")
    with pytest.raises(duly.errors.UnsafeStore, match=r"synchronous_commit = off"):
        use(own_postgres_url, "required")
    use(own_postgres_url, "any")


def test_a_commit_that_waits_for_the_local_disk_is_durable_enough(own_postgres_url: str) -> None:
    set_for_database(own_postgres_url, "synchronous_commit = local")
    use_it(own_postgres_url, "required")


def test_an_old_server_is_refused_by_its_version() -> None:
    refuse_unsafe(TRUSTED, "required")
    old = ServerInfo(version=130020, standby=False, fsync=True, synchronous_commit=True, process=1)
    with pytest.raises(duly.errors.UnsafeStore, match="PostgreSQL 13 is too old: duly needs 14"):
        refuse_unsafe(old, "any")


def test_durability_is_one_of_two_words(sqlite_url: str, tmp_path: Path) -> None:
    with pytest.raises(duly.errors.UsageError, match='must be "required" or "any"'):
        duly.store(sqlite_url, durability="none")
    assert list(tmp_path.iterdir()) == []
