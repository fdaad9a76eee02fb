"""Migrations are numbered files, applied once, whole, in order, and never by an older duly."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import psycopg
import pytest

import duly
from duly.cli.main import main
from duly.core.session import Dialect
from duly.stores.sql.migrations import (
    NAME,
    latest_version,
    migrations,
    split_statements,
    strip_leading_comments,
)
from tests.support.catalogs import Catalog, catalog, facts, note
from tests.support.migrators import LATER, later_migration, migrated, wait_for_waiters
from tests.support.processes.forked import Forked

DIALECTS: tuple[Dialect, ...] = ("postgres", "sqlite")
ALL = [
    "0001_ledger",
    "0002_inbox",
    "0003_jobs",
    "0004_outbox",
    "0005_effects",
    "0006_first_due",
    "0007_first_delivery",
]
CURRENT, NEWER = str(latest_version("postgres")), str(latest_version("postgres") + 1)
MIGRATOR = """
import json, sys, duly
print("ready", flush=True)
sys.stdin.readline()
print(json.dumps(duly.store(sys.argv[1]).migrate()))
"""


@pytest.fixture(params=DIALECTS)
def empty_url(request: pytest.FixtureRequest) -> str:
    """A database without duly's tables."""
    name = "empty_postgres_url" if request.param == "postgres" else "sqlite_url"
    url: str = request.getfixturevalue(name)
    return url


@pytest.fixture
def url(empty_url: str) -> str:
    """A database with them."""
    assert migrated(empty_url, "duly_") == ALL
    return empty_url


def claim(url: str) -> duly.First | duly.Duplicate:
    store = duly.store(url)
    try:
        return duly.dedup(store, "scope", "key")
    finally:
        store.close()


def claim_awaited(url: str) -> duly.First | duly.Duplicate:
    async def ask() -> duly.First | duly.Duplicate:
        async with duly.store(url) as store:
            return await duly.aio.dedup(store, "scope", "key")

    return asyncio.run(ask())


def open_store(url: str) -> None:
    with duly.store(url):
        pass


def migrate(url: str) -> None:
    migrated(url, "duly_")


def migrate_own_connection(url: str) -> None:
    """As Alembic and Django do it."""
    with psycopg.connect(url) as connection:
        duly.migrate(connection)


def check(url: str) -> None:
    duly.store(url).check()


WAYS = [open_store, claim, claim_awaited, migrate, check]


@contextmanager
def nothing_changes(url: str) -> Iterator[None]:
    def look() -> tuple[Catalog, dict[str, str]]:
        return catalog(url, "duly_"), facts(url)

    before = look()
    yield
    assert look() == before


@pytest.mark.parametrize("dialect", DIALECTS)
def test_files_are_numbered_from_one_without_a_gap_and_nothing_else_lies_there(
    dialect: Dialect,
) -> None:
    lying = {entry.name for entry in (files("duly.stores") / dialect / "migrations").iterdir()}
    found = migrations(dialect)
    assert lying == {f"{one.name}.sql" for one in found}
    assert all(NAME.fullmatch(name) for name in lying)
    assert [one.number for one in found] == list(range(1, len(found) + 1))


def test_both_dialects_have_the_same_migrations() -> None:
    postgres, sqlite = ([one.name for one in migrations(dialect)] for dialect in DIALECTS)
    assert postgres == sqlite


def test_a_script_is_cut_only_at_semicolons_that_end_a_statement() -> None:
    script = """
        -- first; comment
        CREATE TABLE a (b text CHECK (b <> ';')); /* ; */ SELECT $$;$$;
        SELECT ";", E'\\';' -- the last one; has no end
    """
    assert [one.split()[0] for one in split_statements(script)] == ["CREATE", "/*", "SELECT"]
    assert split_statements("-- nothing;\n ; ;") == []
    assert strip_leading_comments("-- why\n\n-- more\nSELECT 1 -- kept\n") == "SELECT 1 -- kept"


def test_migrating_again_applies_nothing(url: str) -> None:
    with nothing_changes(url):
        assert migrated(url, "duly_") == []


def test_a_store_says_once_what_it_applied(empty_url: str) -> None:
    store = duly.store(empty_url)
    assert [store.migrate(), store.migrate()] == [ALL, []]
    assert store.version() == latest_version("sqlite")
    store.close()


@contextmanager
def eight_migrators(url: str) -> Iterator[list[list[str]]]:
    """Eight processes that migrate at once; the list is filled with what each one applied."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", MIGRATOR, url]
    migrators = [Forked(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for _ in range(8)]
    for one in migrators:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in migrators:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    applied: list[list[str]] = []
    yield applied
    answers = [one.communicate() for one in migrators]
    assert [problem for _, problem in answers if problem] == []
    applied += sorted(json.loads(answer) for answer, _ in answers)


@pytest.mark.slow
def test_of_eight_migrators_at_once_one_applies_each_and_none_fails(empty_url: str) -> None:
    with eight_migrators(empty_url) as applied:
        pass
    assert len(applied) == 8
    assert sorted(name for each in applied for name in each) == ALL
    assert facts(empty_url)["migrated_to"] == CURRENT


@pytest.mark.slow
def test_migrators_wait_for_the_one_that_is_at_work(empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url) as ninth:
        assert duly.migrate(ninth) == ALL
        with eight_migrators(empty_postgres_url) as applied:
            wait_for_waiters(ninth, 8)
            ninth.commit()
    assert applied == [[]] * 8


@pytest.mark.parametrize("way", WAYS)
def test_tables_of_a_newer_duly_are_refused_and_left_alone(
    url: str, way: Callable[[str], object]
) -> None:
    note(url, "schema_version", NEWER)
    with (
        nothing_changes(url),
        pytest.raises(duly.errors.SchemaMismatch, match="install the newer duly"),
    ):
        way(url)


def test_tables_of_a_newer_duly_are_refused_on_your_own_connection(
    empty_postgres_url: str,
) -> None:
    migrate_own_connection(empty_postgres_url)
    note(empty_postgres_url, "schema_version", NEWER)
    with (
        nothing_changes(empty_postgres_url),
        pytest.raises(duly.errors.SchemaMismatch, match="install the newer duly"),
    ):
        migrate_own_connection(empty_postgres_url)


@pytest.mark.parametrize("option", [[], ["--check"], ["--print"], ["--check", "--json"]])
def test_the_command_refuses_tables_of_a_newer_duly(
    url: str, option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    note(url, "schema_version", NEWER)
    with nothing_changes(url):
        assert main(["migrate", url, *option]) == 1
    assert "install the newer duly" in capsys.readouterr().err


@pytest.mark.parametrize("way", [open_store, claim, claim_awaited, check])
def test_a_postgres_store_without_tables_says_run_migrate(
    empty_postgres_url: str, way: Callable[[str], object]
) -> None:
    with (
        nothing_changes(empty_postgres_url),
        pytest.raises(
            duly.errors.SchemaMismatch,
            match="are not in this database: run `duly migrate URL`, or `duly migrate shop:app`",
        ),
    ):
        way(empty_postgres_url)


@pytest.mark.parametrize("way", [open_store, claim, claim_awaited, check])
def test_a_postgres_store_with_older_tables_says_run_migrate(
    empty_postgres_url: str, way: Callable[[str], object]
) -> None:
    migrate(empty_postgres_url)
    with (
        later_migration(),
        nothing_changes(empty_postgres_url),
        pytest.raises(duly.errors.SchemaMismatch, match=f"needs {NEWER}: run `duly migrate URL`"),
    ):
        way(empty_postgres_url)


def test_an_sqlite_store_makes_its_file_and_tables_when_it_opens(sqlite_url: str) -> None:
    assert claim(sqlite_url).first
    assert facts(sqlite_url)["migrated_to"] == CURRENT


def test_an_sqlite_store_brings_older_tables_up_to_date_when_it_opens(sqlite_url: str) -> None:
    assert claim(sqlite_url).first
    with later_migration():
        assert not claim(sqlite_url).first
    assert facts(sqlite_url)["migrated_to"] == NEWER


def test_checking_an_sqlite_file_neither_makes_nor_leaves_any_file(
    sqlite_url: str, tmp_path: Path
) -> None:
    with pytest.raises(duly.errors.SchemaMismatch, match="run `duly migrate URL`"):
        duly.store(sqlite_url).check()
    assert list(tmp_path.iterdir()) == []
    migrate(sqlite_url)
    before = sorted(tmp_path.iterdir())
    duly.store(sqlite_url).check()
    assert sorted(tmp_path.iterdir()) == before


def test_a_migration_goes_with_the_transaction_it_was_given(empty_postgres_url: str) -> None:
    with later_migration(), psycopg.connect(empty_postgres_url) as connection:
        assert duly.migrate(connection) == [*ALL, LATER.name]
        connection.rollback()
        assert facts(empty_postgres_url) == {}
        assert duly.migrate(connection) == [*ALL, LATER.name]
    assert facts(empty_postgres_url)["migrated_to"] == NEWER


def test_every_installation_has_an_id_of_its_own_that_stays(url: str) -> None:
    assert migrated(url, "other_") == ALL
    before = facts(url)["installation_id"]
    with later_migration():
        migrate(url)
    assert facts(url)["installation_id"] == before != facts(url, "other_")["installation_id"]
