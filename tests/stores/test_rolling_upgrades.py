"""Releases of two schema versions work on the same tables: nothing has to be stopped to migrate."""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import duly
from duly.cli.main import main
from duly.core.defaults import WAIT
from duly.core.onestep import finish
from duly.inbox.accept import receive_many
from duly.inbox.counters import PendingCounters, flush
from duly.inbox.new_event import EventOutcome, NewEvent, Status
from duly.inbox.retention import prune_events
from duly.jobs.statements import EVENTS_READ
from duly.stores.sql.migrations import latest_version, migrations
from tests.support import schema_6
from tests.support.catalogs import catalog, facts, sqlite_path
from tests.support.inboxes import FIRST_DELIVERIES, arrival, found
from tests.support.migrators import earlier_duly, growing, later_migration, migrated

THIS = latest_version("postgres")
NEXT = THIS + 1
ACCEPTED, DUPLICATE = EventOutcome(Status.ACCEPTED), EventOutcome(Status.DUPLICATE)
# Of each kind at once, and how many events each of them receives.
RECEIVERS, EVENTS = 3, 40


@pytest.fixture(params=["postgres", "sqlite"])
def url(request: pytest.FixtureRequest) -> str:
    """A database with the tables of schema version 6."""
    name = "empty_postgres_url" if request.param == "postgres" else "sqlite_url"
    address: str = request.getfixturevalue(name)
    with earlier_duly(6):
        migrated(address, "duly_")
    return address


@pytest.fixture(params=["sync", "async"])
def mode(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


async def receive(store: duly.types.Store, mode: str, *events: NewEvent) -> list[Any]:
    """Receive as this release does, in one batch."""
    runner = store.sync_runner if mode == "sync" else store.async_runner
    return await receive_many(runner, events)


def first_deliveries(store: duly.types.Store) -> Counter[tuple[str, str, str]]:
    """The first delivery of each event, whichever release wrote it."""
    return Counter(found(store, FIRST_DELIVERIES))


@contextmanager
def nothing_changes(url: str) -> Iterator[None]:
    before = catalog(url, "duly_"), facts(url)
    yield
    assert (catalog(url, "duly_"), facts(url)) == before


async def test_both_releases_receive_on_the_migrated_tables(url: str, mode: str) -> None:
    before = [arrival("shop", f"before {n}", remote="192.0.2.6") for n in range(3)]
    assert schema_6.receive(url, before) == 3
    assert migrated(url, "duly_") == [one.name for one in migrations("sqlite")[6:]]
    old = [arrival("shop", f"old {n}", remote="192.0.2.6", secret="two") for n in range(3)]
    alone = arrival("shop", "old alone", remote="192.0.2.6")
    new = [arrival("shop", f"new {n}", remote="192.0.2.7", secret="one") for n in range(3)]
    assert schema_6.receive(url, old) == 3
    assert schema_6.receive_alone(url, alone)
    async with duly.store(url) as store:
        assert await receive(store, mode, *new) == [ACCEPTED] * 3
        # What one has received is a duplicate to the other.
        copies = [one._replace(id=arrival("shop", "x").id) for one in (*before, *old, alone)]
        assert await receive(store, mode, *copies) == [DUPLICATE] * 7
        assert schema_6.receive(url, [one._replace(id=arrival("shop", "x").id) for one in new]) == 0
        assert first_deliveries(store) == Counter(
            (one.event_id, "accepted", one.remote) for one in (*before, *old, alone, *new)
        )
        # Each reads what the other wrote.
        everything = [*before, *old, alone, *new]
        names = sorted((one.event_id, one.body) for one in everything)
        assert schema_6.read(url, [one.id for one in everything]) == names
        ids = json.dumps([one.id for one in everything])
        rows = await store.async_runner.run(
            lambda session: session.rows(EVENTS_READ, ids=ids), wait=WAIT
        )
        assert sorted((row["event_id"], bytes(row["body"])) for row in rows) == names
        store.close()


async def test_each_release_notes_and_prunes_what_the_other_received(url: str, mode: str) -> None:
    migrated(url, "duly_")
    old, new = (arrival("shop", name, jobs=(), ttl=1) for name in ("old", "new"))
    async with duly.store(url) as store:
        schema_6.receive(url, [old])
        await receive(store, mode, new)
        assert schema_6.note(url, new)
        tally = PendingCounters()
        tally.note(old, "duplicate", 1)
        await flush(store.async_runner, tally)
        noted = Counter(found(store, "SELECT event, outcome FROM duly_deliveries"))
        assert Counter({(str(event), outcome): n for (event, outcome), n in noted.items()}) == {
            (old.id, "accepted"): 1,
            (old.id, "duplicate"): 1,
            (new.id, "duplicate"): 1,
        }
        assert schema_6.prune(url) == 2
        assert found(store, "SELECT id FROM duly_events") == []
        assert found(store, "SELECT event FROM duly_deliveries") == []
        schema_6.receive(url, [arrival("shop", "later", jobs=(), ttl=1)])
        assert await prune_events(store.async_runner, 10) == 1
        assert found(store, "SELECT event FROM duly_deliveries") == []
        store.close()


@pytest.mark.promise("I2")
def test_a_migration_under_load_loses_no_event_and_doubles_none(url: str) -> None:
    """Receivers of the old release go on while the new one migrates and receives the same events.

    Every event is written once, by one of them.
    """
    names = [f"evt_{number}" for number in range(EVENTS)]

    def old() -> int:
        return sum(schema_6.receive(url, [arrival("shop", name)]) for name in names)

    def new() -> int:
        with duly.store(url) as store:
            return sum(
                finish(receive_many(store.sync_runner, [arrival("shop", name)])) == [ACCEPTED]
                for name in reversed(names)
            )

    with ThreadPoolExecutor(2 * RECEIVERS) as threads:
        running = [threads.submit(old) for _ in range(RECEIVERS)]
        migrated(url, "duly_")
        assert schema_6.may_start(url)
        running += [threads.submit(new) for _ in range(RECEIVERS)]
        running += [threads.submit(old) for _ in range(RECEIVERS)]  # restarted
        wrote = [one.result() for one in running]
    assert sum(wrote) == EVENTS
    with duly.store(url) as store:
        assert first_deliveries(store) == Counter((name, "accepted", None) for name in names)
        jobs = "SELECT count(*), count(DISTINCT event) FROM duly_jobs"
        assert found(store, jobs) == [(EVENTS, EVENTS)]


def test_the_release_before_can_restart_on_the_migrated_tables(url: str) -> None:
    assert schema_6.may_start(url)
    migrated(url, "duly_")
    assert schema_6.may_start(url)
    assert duly.store(url).version() == THIS


def open_store(url: str) -> None:
    with duly.store(url) as store:
        assert finish(receive_many(store.sync_runner, [arrival("shop", "evt_1")])) == [ACCEPTED]


def check(url: str) -> None:
    duly.store(url).check()


def migrate(url: str) -> None:
    assert migrated(url, "duly_") == []


def command(*arguments: str) -> Callable[[str], None]:
    def run(url: str) -> None:
        assert main(["migrate", *arguments, url]) == 0

    return run


WAYS = [open_store, check, migrate, command(), command("--check"), command("--print")]


@pytest.mark.parametrize("way", WAYS)
def test_this_release_runs_on_newer_tables_that_allow_it(
    url: str, way: Callable[[str], None]
) -> None:
    with later_migration(growing(NEXT, THIS)):
        migrated(url, "duly_")
    with nothing_changes(url):
        way(url)
    assert facts(url)["migrated_to"] == str(NEXT)
    assert duly.store(url).version() == NEXT


@pytest.mark.parametrize("way", [open_store, check, migrate])
def test_this_release_refuses_newer_tables_that_do_not_allow_it(
    url: str, way: Callable[[str], None]
) -> None:
    with later_migration(growing(NEXT, NEXT)):
        migrated(url, "duly_")
    with (
        nothing_changes(url),
        pytest.raises(
            duly.errors.SchemaMismatch,
            match=f"at schema version {NEXT} and take code from version {NEXT} on, "
            f"this duly knows only {THIS}: install the newer duly",
        ),
    ):
        way(url)


def test_what_one_migration_has_forbidden_no_later_one_allows(url: str) -> None:
    with later_migration(growing(NEXT, NEXT), growing(NEXT + 1, 6)):
        migrated(url, "duly_")
    assert (facts(url)["schema_version"], facts(url)["migrated_to"]) == (str(NEXT), str(NEXT + 1))


def test_a_script_applied_by_hand_notes_the_same(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with later_migration(growing(NEXT, 6), growing(NEXT + 1, NEXT)):
        assert main(["migrate", "--print", url]) == 0
        script = capsys.readouterr().out
    if url.startswith("sqlite:"):
        with closing(sqlite3.connect(sqlite_path(url))) as connection:
            connection.executescript(script)
    else:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(script.encode())
    assert (facts(url)["schema_version"], facts(url)["migrated_to"]) == (str(NEXT), str(NEXT + 1))


@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
def test_every_migration_says_whose_code_may_go_on(dialect: Any) -> None:
    for one in migrations(dialect)[6:]:
        assert one.text.startswith("-- oldest code: "), one.name
        assert 6 <= one.oldest_code <= one.number
    assert [one.oldest_code for one in migrations("postgres")] == [
        one.oldest_code for one in migrations("sqlite")
    ]


READING = [
    ["jobs"],
    ["jobs", "dead"],
    ["jobs", "show", "0198c3a2-5d1e-7b4f-9c60-8a2f41d7e305"],
    ["outbox"],
    ["outbox", "dead"],
    ["migrate", "--check"],
]


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_reading_command_never_migrates(
    url: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with nothing_changes(url):
        assert main([*words, url]) == 1
    said = capsys.readouterr().err
    assert f"at schema version 6, this duly needs {THIS}: run `duly migrate URL`" in said


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_reading_command_makes_no_file(words: list[str], tmp_path: Path) -> None:
    assert main([*words, f"sqlite:///{tmp_path}/shop.db"]) == 1
    assert list(tmp_path.iterdir()) == []


# What the migration of this release makes on PostgreSQL


def storage_of_bodies(url: str) -> str:
    with psycopg.connect(url) as connection:
        [(method,)] = connection.execute(
            "SELECT attcompression::text FROM pg_attribute"
            " WHERE attrelid = 'duly_events'::regclass AND attname = 'body'"
        )
    found: str = method
    return found


def test_bodies_are_compressed_by_lz4_where_the_server_has_it(own_postgres_url: str) -> None:
    with psycopg.connect(own_postgres_url) as connection:
        [(has,)] = connection.execute(
            "SELECT 'lz4' = ANY (enumvals) FROM pg_settings"
            " WHERE name = 'default_toast_compression'"
        )
    assert storage_of_bodies(own_postgres_url) == ("l" if has else "")


def test_a_server_that_was_built_without_lz4_is_migrated_too(empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url) as connection:
        # The migration sees this table in place of the server's own view.
        connection.execute("CREATE TABLE public.pg_settings (name text, enumvals text[])")
        connection.execute(
            "INSERT INTO public.pg_settings VALUES ('default_toast_compression', '{pglz}')"
        )
        connection.execute("SET search_path = public, pg_catalog")
        assert duly.migrate(connection)[-1] == migrations("postgres")[-1].name
    assert storage_of_bodies(empty_postgres_url) == ""


def test_every_role_may_call_what_its_statements_call(empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute("ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC")
        duly.migrate(connection)
        [(may,)] = connection.execute(
            "SELECT has_function_privilege('public', 'duly_fail(text, text)', 'execute')"
        )
    assert may


def test_a_statement_that_fails_on_purpose_has_a_state_of_its_own(own_postgres_url: str) -> None:
    with (
        psycopg.connect(own_postgres_url) as connection,
        pytest.raises(psycopg.DatabaseError, match="no such luck") as told,
    ):
        connection.execute("SELECT duly_fail('UD001', 'no such luck')")
    assert told.value.sqlstate == "UD001"
