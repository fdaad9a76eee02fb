"""``schema.sql`` shows what the migrations make: applied to an empty database it is the same."""

import re
import sqlite3
from importlib.resources import files

import psycopg

from duly.core.session import Dialect
from duly.stores.sql.migrations import split_statements
from duly.stores.sql.statements import TABLES
from tests.support.catalogs import catalog, sqlite_path
from tests.support.migrators import migrated


def schema(dialect: Dialect) -> str:
    return (files("duly.stores") / dialect / "schema.sql").read_text(encoding="utf-8")


def test_the_schema_of_postgres_equals_the_sum_of_its_migrations(
    empty_postgres_url: str, own_postgres_url: str
) -> None:
    with psycopg.connect(empty_postgres_url) as connection:
        for statement in split_statements(schema("postgres")):
            connection.execute(statement.encode())
    shown = catalog(empty_postgres_url, "duly_")
    assert shown == catalog(own_postgres_url, "duly_")
    assert {row[0] for row in shown["tables and indexes"]} > set(TABLES)


def test_the_schema_of_sqlite_equals_the_sum_of_its_migrations(sqlite_url: str) -> None:
    other = f"{sqlite_url}-shown"
    connection = sqlite3.connect(sqlite_path(other))
    connection.executescript(schema("sqlite"))
    connection.close()
    migrated(sqlite_url, "duly_")
    shown = catalog(other, "duly_")
    assert shown == catalog(sqlite_url, "duly_")
    assert {row[1] for row in shown["definitions"]} > set(TABLES)


def test_every_table_and_index_of_a_schema_file_is_introduced_by_a_sentence() -> None:
    for text in (schema("postgres"), schema("sqlite")):
        made = re.findall(r"^CREATE", text, re.MULTILINE)
        introduced = re.findall(r"\n\n(?:-- .*\n)*-- .*\.\nCREATE", text)
        assert len(introduced) == len(made) > 0
