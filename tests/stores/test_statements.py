"""SQL is one named file per statement, and what its opening comment says is what it takes."""

import re
import sqlite3
from importlib.resources import files
from types import ModuleType

import psycopg
import pytest
from psycopg.pq import ExecStatus

from duly.core.defaults import Names
from duly.core.session import Dialect
from duly.inbox import statements as inbox
from duly.jobs import statements as jobs
from duly.ledger import statements as ledger
from duly.outbox import statements as outbox
from duly.stores.sql import migrations as migrating_module
from duly.stores.sql.migrations import migrations, split_statements
from duly.stores.sql.placeholders import names_in, prepare
from duly.stores.sql.statements import (
    SLOT,
    TABLES,
    cut_returning,
    fill_slots,
    read_sql_file,
    statement_text,
)
from tests.support.catalogs import sqlite_path
from tests.support.migrators import migrated

DIALECTS: tuple[Dialect, ...] = ("postgres", "sqlite")
# What PostgreSQL needs and SQLite does not: a server to look at, lock waits, and few round trips.
POSTGRES_ONLY = re.compile(
    r"_moment|_woken|server_check|wait_.*|inbox_accept|jobs_insert_many"
    r"|claims_insert_many|jobs_return_many|jobs_bury_many|outbox_take_many"
)
# What PostgreSQL does in one statement, and SQLite in two.
SQLITE_ONLY = re.compile(r"jobs_remove(_many)?|outbox_remove(_many)?|outbox_take")
BRACKETS = re.compile(r"\([^()]*\)")
# One value of the right kind for every parameter, for the statements of SQLite.
VALUES: dict[str, object] = {
    "scope": "scope", "digest": b"d" * 32, "key_text": "key", "fingerprint": b"f" * 32,
    "ttl": 1, "state": "held", "token": b"t" * 16, "lease": 1, "now": 1, "epoch": 1,
    "result": b"{}", "limit": 1, "kind": "number", "version": b"v", "tie": True,
    "name": "name", "value": "value", "table": "duly_meta", "schema": "schema",
    "each": '[["scope", "key"]]', "id": "id", "replay": None, "source": "source",
    "event_id": "evt_1", "type": None, "flags": "", "event_time": None, "headers": b"{}",
    "body": b"{}", "body_ttl": 1, "event": "id", "outcome": "accepted", "secret": None,
    "remote": None, "at": 1, "most": 1, "age": 1, "n": 1, "queue": "default", "payload": None,
    "delay": 0, "priority": 0, "max_attempts": 1, "events": "[]", "worker": "id", "hold": 1,
    "ids": "[]", "names": "[]", "queues": "[]", "waits": "[1]", "ran": 1, "burnt": 0, "rescued": 0,
    "parked": 0, "error": None, "least": 1, "host": "host", "pid": 1, "idle": 0, "job": "id",
    "key": "key", "slot": 1, "before": b"t", "holder": "id",
    "urgency": 0, "last": "id", "since": 1, "until": 1, "after_at": 1, "after_id": "id", "start": 0,
    "gap": 0, "destination": "https://example.com", "request": b"{}", "signer": None, "after": "",
    "skipped": "[]", "room": "1",
}  # fmt: skip
MODULES = [ledger, inbox, jobs, outbox]


def names_of(dialect: Dialect) -> set[str]:
    """The files of a dialect, fragments included."""
    folder = files("duly.stores") / dialect / "statements"
    return {entry.name.removesuffix(".sql") for entry in folder.iterdir()}


def every_file() -> list[tuple[Dialect, str]]:
    return [(dialect, name) for dialect in DIALECTS for name in sorted(names_of(dialect))]


def every_statement() -> list[tuple[Dialect, str]]:
    """Every file that is not only a fragment of others."""
    return [(dialect, name) for dialect, name in every_file() if not name.startswith("_")]


def of(dialect: Dialect) -> list[str]:
    return [name for one, name in every_statement() if one == dialect]


def opening(dialect: Dialect, name: str) -> str:
    """The comment that a file opens with, on one line."""
    lines = []
    for line in read_sql_file(dialect, "statements", f"{name}.sql").splitlines():
        if not line.startswith("-- "):
            break
        lines.append(line.removeprefix("-- ").strip())
    return " ".join(lines)


def listed(dialect: Dialect, name: str, what: str) -> list[str]:
    """The names that the opening comment lists after ``params:`` or ``columns:``."""
    text = opening(dialect, name).partition(f"{what}: ")[2].partition("columns: ")[0]
    if found := re.fullmatch(r"as (\w+)", text):
        return listed(dialect, found[1], what)
    words = [word.strip().removesuffix("[]") for word in BRACKETS.sub("", text).split(",")]
    return [] if words == ["none"] else words


def test_both_dialects_have_the_same_statements_but_for_what_only_postgres_needs() -> None:
    postgres, sqlite = (names_of(dialect) for dialect in DIALECTS)
    both = {name for name in sqlite if not SQLITE_ONLY.fullmatch(name)}
    assert both <= postgres
    assert {name for name in postgres if not POSTGRES_ONLY.fullmatch(name)} == both


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_statement_that_a_stage_names_has_its_file(module: ModuleType) -> None:
    wanted = {value for name, value in vars(module).items() if name.isupper()}
    assert wanted
    for dialect, other in (("postgres", SQLITE_ONLY), ("sqlite", POSTGRES_ONLY)):
        there = names_of(dialect)  # type: ignore[arg-type]
        there |= {name.removesuffix("_many") for name in there}  # some are only for many
        assert {name for name in wanted if not other.fullmatch(name)} <= there


def test_every_file_is_named_by_a_stage_or_by_a_store() -> None:
    stages = {value for one in MODULES for name, value in vars(one).items() if name.isupper()}
    named = stages | {f"{name}_many" for name in stages}
    named |= {value for value in vars(migrating_module).values() if isinstance(value, str)}
    for dialect in DIALECTS:
        left = {name for name in names_of(dialect) if name not in named}
        assert all(POSTGRES_ONLY.fullmatch(name) for name in left), left


@pytest.mark.parametrize(("dialect", "name"), every_file())
def test_a_file_is_named_in_plain_words_and_opens_with_its_promise(
    dialect: Dialect, name: str
) -> None:
    assert re.fullmatch(r"_?[a-z]+(_[a-z]+)*", name)
    promise, _, rest = opening(dialect, name).partition("params: ")
    assert rest
    assert promise.strip().endswith(".")
    assert name.startswith("_") or "columns: " in rest


@pytest.mark.parametrize(("dialect", "name"), every_file())
def test_the_parameters_listed_are_those_used(dialect: Dialect, name: str) -> None:
    used = names_in(fill_slots(statement_text(dialect, name), dialect, Names()))
    assert set(listed(dialect, name, "params")) == set(used)


@pytest.mark.parametrize(("dialect", "name"), every_statement())
def test_a_file_holds_exactly_one_statement(dialect: Dialect, name: str) -> None:
    text = statement_text(dialect, name)
    assert split_statements(text) == [text]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_slot_of_statements_and_migrations_is_known(dialect: Dialect) -> None:
    texts = {name: statement_text(dialect, name) for one, name in every_file() if one == dialect}
    texts |= {one.name: one.text for one in migrations(dialect)}
    fragments = {name.removeprefix("_") for name in texts if name.startswith("_")}
    for name, text in texts.items():
        assert set(SLOT.findall(text)) <= {*TABLES, "prefix", "schema", *fragments}, name
        assert SLOT.search(fill_slots(text, dialect, Names())) is None, name


def test_without_its_rows_a_statement_of_sqlite_loses_its_last_clause_and_nothing_else() -> None:
    for name in of("sqlite"):
        text = statement_text("sqlite", name)
        cut = cut_returning(text)
        rest = text.removeprefix(cut)
        assert "RETURNING" not in cut, name
        assert not rest or rest.lstrip().startswith("RETURNING "), name
        assert rest.count("(") == rest.count(")"), name
    assert cut_returning(statement_text("sqlite", "claims_insert")).endswith("DO NOTHING")


def test_an_unknown_slot_is_an_error_of_ours_and_not_a_table() -> None:
    with pytest.raises(FileNotFoundError):
        fill_slots("SELECT * FROM {nothing}", "sqlite", Names())


def test_the_columns_listed_are_those_postgres_returns(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        for name in of("postgres"):
            text = fill_slots(statement_text("postgres", name), "postgres", Names())
            server = connection.pgconn
            prepared = server.prepare(name.encode(), prepare(text, "dollar").text.encode())
            assert prepared.status == ExecStatus.COMMAND_OK, (name, prepared.error_message)
            told = server.describe_prepared(name.encode())
            columns = [(told.fname(place) or b"").decode() for place in range(told.nfields)]
            # The bound set on the way, and who was woken, is nobody's business.
            wanted = listed("postgres", name, "columns")
            assert [column for column in columns if column in wanted] == wanted, name
            assert set(columns) - set(wanted) <= {"bound", "woken"}, name


def test_the_columns_listed_are_those_sqlite_returns(sqlite_url: str) -> None:
    migrated(sqlite_url, "duly_")
    connection = sqlite3.connect(sqlite_path(sqlite_url), isolation_level=None)
    for name in of("sqlite"):
        connection.execute("BEGIN")
        text = fill_slots(statement_text("sqlite", name), "sqlite", Names())
        cursor = connection.execute(text, VALUES)
        columns = [column[0] for column in cursor.description]
        cursor.close()
        connection.execute("ROLLBACK")
        assert columns == listed("sqlite", name, "columns"), name
    connection.close()
