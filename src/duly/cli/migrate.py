"""``duly migrate``: bring the tables to this version's schema, or say what that would take."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import duly
from duly.app.output import add_json_option, print_answer
from duly.cli.target import add_store_options, place_of, store_named
from duly.core.defaults import names
from duly.core.errors import UsageError
from duly.stores.sql.migrations import latest_version, migration_script, refuse_newer

if TYPE_CHECKING:
    import argparse

    from duly.core.defaults import Names
    from duly.core.session import Dialect

EXAMPLES = """\
examples:
  duly migrate shop:app                        the database of an application
  duly migrate postgresql://shop@db/shop
  duly migrate sqlite:///shop.db --check       change nothing; exit 1 unless up to date
  duly migrate --print postgresql://           the whole script, without a database
  duly migrate --print postgresql://shop@db/shop | psql --set ON_ERROR_STOP=1 shop
  duly migrate --print sqlite:// | sqlite3 -bail shop.db

Several migrators may run at once: one works, the others wait and find nothing to do. Each
migration is applied whole or not at all. An SQLite file is also migrated whenever duly opens it."""

# Addresses that name a kind of database and no database.
KINDS: dict[str, Dialect] = {
    "postgresql://": "postgres",
    "postgres://": "postgres",
    "sqlite://": "sqlite",
}
BEGIN: dict[Dialect, str] = {"postgres": "BEGIN;", "sqlite": "BEGIN IMMEDIATE;"}


def add(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add_store_options(parser)
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--check", action="store_true", help="change nothing; exit 1 unless up to date"
    )
    instead.add_argument(
        "--print", action="store_true", help="change nothing; print the SQL that is missing"
    )
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Apply what is missing, or check, or print."""
    place = place_of(arguments)
    if arguments.print:
        return print_missing(arguments, place)
    if arguments.check:
        return check(arguments, place)
    with closing(store_named(arguments, place)) as store:
        applied = store.migrate()
        version = store.version()
    lines = [f"applied {name}" for name in applied]
    lines.append(f"{'now at' if applied else 'up to date:'} schema version {version}")
    print_answer(arguments, "\n".join(lines), {"applied": list(applied), "version": version})
    return 0


def check(arguments: argparse.Namespace, place: str) -> int:
    """Say whether the tables are those this duly needs; raise what to do where they are not."""
    with closing(store_named(arguments, place)) as store:
        needed = latest_version(dialect_of(store.url))
        if arguments.json:
            version = store.version()
            print_answer(arguments, "", {"version": version, "needed": needed})
        store.check()
    if not arguments.json:
        print_answer(arguments, f"up to date: schema version {needed}", None)
    return 0


def print_missing(arguments: argparse.Namespace, place: str) -> int:
    """Print the SQL from the database's version on, or all of it where no database is named."""
    version = 0
    if place in KINDS:
        dialect, where = KINDS[place], names(arguments.prefix, arguments.schema)
        refuse_schema(dialect, where)
    else:
        with closing(store_named(arguments, place)) as store:
            dialect, where = dialect_of(store.url), store.names
            version = store.version()
        refuse_newer(version, dialect)
    text = in_one_transaction(migration_script(where, dialect, after=version), dialect, version)
    print_answer(
        arguments, text, {"version": version, "needed": latest_version(dialect), "sql": text}
    )
    return 0


def refuse_schema(dialect: Dialect, where: Names) -> None:
    """SQLite has no schemas."""
    if dialect == "sqlite" and where.schema is not None:
        raise UsageError("--schema and DULY_SCHEMA are for PostgreSQL: on SQLite use --prefix")


def in_one_transaction(statements: str, dialect: Dialect, version: int) -> str:
    """A script that psql or sqlite3 can run as it stands."""
    if not statements:
        return f"-- Nothing to do: duly's tables are at schema version {version}."
    head = (
        f"-- duly {duly.__version__}: from schema version {version} to {latest_version(dialect)}."
    )
    return f"{head}\n{BEGIN[dialect]}\n\n{statements}\nCOMMIT;"


def dialect_of(url: str) -> Dialect:
    """Which SQL an address speaks; what is no address at all is refused when it is opened."""
    return KINDS.get(url) or ("sqlite" if url.startswith("sqlite:") else "postgres")
