"""Prefix and schema keep installations apart, and no name that could carry SQL is ever used."""

import sqlite3
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

import duly
from duly.cli.main import main
from duly.core.defaults import DEFAULT_PREFIX, Names
from tests.support.catalogs import catalog, facts
from tests.support.migrators import migrated, wait_for_waiters
from tests.support.servers.databases import moved

ALL = [
    "0001_ledger",
    "0002_inbox",
    "0003_jobs",
    "0004_outbox",
    "0005_effects",
    "0006_first_due",
    "0007_first_delivery",
]
HOSTILE = [
    "",
    " ",
    "a b",
    "1_",
    "-",
    "Duly_",
    "DULY_",
    "duly_\n",
    "duly\0",
    "a" * 42,
    "a" * 10_000,
    'duly_"; DROP TABLE orders; --',
    "duly_' OR 1=1 --",
    "public.duly_",
    "duly_;",
    "duly_)",
    "{claims}",
    ":name",
    "%s",
    "$1",
    "dul\u00fd_",
    "d\u0443ly_",  # the second letter is Cyrillic
    "\u0661_",  # a digit, but not of ours
    "\ud800",
]
NO_STRINGS: list[object] = [b"duly_", 1, True, ["duly_"], object()]
# Nobody listens here: whoever gets this far fails with another error.
NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"


@pytest.fixture
def role(postgres_server: str, empty_postgres_url: str) -> Iterator[str]:
    """A user who may create nothing in the database; yields the database's URL as that user."""
    name = f"duly_{uuid.uuid4().hex[:12]}"
    user = sql.Identifier(name)
    with psycopg.connect(empty_postgres_url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'secret'").format(user))
        admin.execute("REVOKE CREATE ON SCHEMA public FROM public")
        admin.execute(sql.SQL("CREATE SCHEMA audit AUTHORIZATION {}").format(user))
        connected = admin.info
        host, port = connected.host, connected.port
        yield moved(empty_postgres_url, host, port).replace(
            f"//{connected.user}", f"//{name}:secret"
        )
        admin.execute(sql.SQL("DROP OWNED BY {}").format(user))
        admin.execute(sql.SQL("DROP ROLE {}").format(user))


@pytest.fixture(params=["postgres", "sqlite"])
def url(request: pytest.FixtureRequest) -> str:
    name = "empty_postgres_url" if request.param == "postgres" else "sqlite_url"
    found: str = request.getfixturevalue(name)
    return found


def test_two_prefixes_in_one_database_do_not_see_each_other(url: str) -> None:
    migrated(url, "one_")
    migrated(url, "two_")
    one, two = duly.store(url, prefix="one_"), duly.store(url, prefix="two_")
    assert duly.dedup(one, "scope", "key").first
    assert duly.newer(one, "resource", 2)
    assert duly.dedup(two, "scope", "key", ttl=timedelta(microseconds=1)).first
    assert duly.newer(two, "resource", 1)
    assert duly.prune(two) == 1
    assert duly.prune(one) == 0
    assert duly.dedup(one, "scope", "key").duplicate
    assert catalog(url, "one_") == catalog(url, "two_")
    one.close()
    two.close()


def test_the_longest_prefix_leaves_room_for_every_name(url: str) -> None:
    longest = "p" * 41
    migrated(url, longest)
    migrated(url, DEFAULT_PREFIX)
    long, usual = catalog(url, longest), catalog(url, DEFAULT_PREFIX)
    # PostgreSQL shortens the names of checks by itself; no statement names one.
    for found in (long, usual):
        found["constraints"] = sorted(row[-1:] for row in found.get("constraints", []))
    assert long == usual


def test_a_schema_is_made_when_it_is_missing(empty_postgres_url: str) -> None:
    store = duly.store(empty_postgres_url, schema="audit")
    assert store.migrate() == ALL
    assert duly.dedup(store, "scope", "key").first
    store.close()
    assert facts(empty_postgres_url) == {}
    migrated(empty_postgres_url, DEFAULT_PREFIX)
    made = catalog(empty_postgres_url, DEFAULT_PREFIX, schema="audit")
    usual = catalog(empty_postgres_url, DEFAULT_PREFIX)
    assert made["columns"] == usual["columns"]
    assert made["tables and indexes"] == usual["tables and indexes"]


def test_a_schema_that_is_there_takes_no_right_to_make_one(role: str) -> None:
    store = duly.store(role, schema="audit")
    assert store.migrate() == ALL
    assert duly.dedup(store, "scope", "key").first
    store.close()


def test_a_schema_that_may_not_be_made_is_one_line_and_no_traceback(
    role: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["migrate", role, "--schema", "other"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("duly: permission denied")
    assert error.count("\n") == 1
    assert "secret" not in error


def test_two_schemas_in_one_database_do_not_see_each_other(empty_postgres_url: str) -> None:
    one = duly.store(empty_postgres_url, schema="one")
    two = duly.store(empty_postgres_url, schema="two")
    for store in (one, two):
        store.migrate()
        assert duly.dedup(store, "scope", "key").first
        store.close()


def test_two_installations_can_make_their_common_schema_at_once(empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url) as first, ThreadPoolExecutor() as threads:
        duly.migrate(first, prefix="one_", schema="audit")
        second = duly.store(empty_postgres_url, prefix="two_", schema="audit")
        migrating = threads.submit(second.migrate)
        wait_for_waiters(first, 1)
        first.commit()
        assert migrating.result() == ALL


def sqlite_store(**names: object) -> object:
    return duly.store("sqlite:///there-is-no-such-folder/duly.db", **names)  # type: ignore[arg-type]


def postgres_store(**names: object) -> object:
    return duly.store(NOWHERE, **names)  # type: ignore[arg-type]


def joined(**names: object) -> object:
    """A verb on the user's own connection, which must not see a single statement."""
    connection = sqlite3.connect(":memory:")
    seen: list[str] = []
    connection.set_trace_callback(seen.append)
    try:
        return duly.dedup(connection, "scope", "key", **names)  # type: ignore[arg-type]
    finally:
        connection.close()
        assert seen == []


def migrated_by_hand(**names: object) -> object:
    connection = sqlite3.connect(":memory:")
    try:
        return duly.migrate(connection, **names)  # type: ignore[arg-type]
    finally:
        assert connection.total_changes == 0
        connection.close()


Use = Callable[..., object]
USERS: list[Use] = [sqlite_store, postgres_store, joined, migrated_by_hand]


@pytest.mark.parametrize("use", [*USERS, Names])
def test_a_hostile_name_is_refused_before_anything_is_touched(use: Use) -> None:
    for name in [*HOSTILE, *NO_STRINGS]:
        for setting in ("prefix", "schema"):
            with pytest.raises(duly.errors.UsageError, match=f"^{setting} .* lower-case letters"):
                use(**{setting: name})


@pytest.mark.parametrize("variable", ["DULY_PREFIX", "DULY_SCHEMA"])
def test_a_hostile_name_in_the_environment_is_refused_too(
    variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in HOSTILE:
        if "\0" in name or name == "\ud800":
            continue  # no environment can hold these
        monkeypatch.setenv(variable, name)
        for use in USERS:
            with pytest.raises(duly.errors.UsageError, match="is not allowed"):
                use()
        assert main(["migrate", NOWHERE]) == 2
        assert main(["migrate", "--print", "postgresql://"]) == 2
    assert capsys.readouterr().out == ""


def test_the_environment_names_the_tables_unless_the_caller_does(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DULY_PREFIX", "environment_")
    with duly.store(sqlite_url):
        assert facts(sqlite_url, "environment_")
        assert not facts(sqlite_url, "argument_")
    with duly.store(sqlite_url, prefix="argument_"):
        assert facts(sqlite_url, "argument_")


def test_sqlite_has_no_schemas_and_says_so(sqlite_url: str, tmp_path: Path) -> None:
    with pytest.raises(duly.errors.UsageError, match="use prefix="):
        duly.store(sqlite_url, schema="audit")
    assert main(["migrate", "--print", "sqlite://", "--schema", "audit"]) == 2
    assert list(tmp_path.iterdir()) == []


def test_what_to_run_names_the_prefix_and_schema_that_were_asked_for(
    empty_postgres_url: str,
) -> None:
    store = duly.store(empty_postgres_url, prefix="shop_", schema="ledger")
    with pytest.raises(
        duly.errors.SchemaMismatch, match=r"`duly migrate URL --prefix shop_ --schema ledger`"
    ):
        store.open()
