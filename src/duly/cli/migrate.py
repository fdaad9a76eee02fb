"""``duly migrate``: bring the tables to this version's schema, check them, or print the SQL."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import duly
from duly.app.output import add_json_option, print_answer
from duly.cli.options import add_target_options, require_target, store_of
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

# URLs that name a kind of database and no database.
KINDS: dict[str, Dialect] = {
    "postgresql://": "postgres",
    "postgres://": "postgres",
    "sqlite://": "sqlite",
}
BEGIN: dict[Dialect, str] = {"postgres": "BEGIN;", "sqlite": "BEGIN IMMEDIATE;"}


def add(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add_target_options(parser)
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--check", action="store_true", help="change nothing; exit 1 unless up to date"
    )
    instead.add_argument(
        "--print", action="store_true", help="change nothing; print the SQL that is missing"
    )
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Apply the missing migrations, or check, or print them."""
    target = require_target(arguments.app)
    if arguments.print:
        return print_missing(arguments, target)
    if arguments.check:
        return check(arguments, target)
    with closing(store_of(arguments, target)) as store:
        applied = store.migrate()
        version = store.version()
    lines = [f"applied {name}" for name in applied]
    lines.append(f"{'now at' if applied else 'up to date:'} schema version {version}")
    print_answer(arguments, "\n".join(lines), {"applied": list(applied), "version": version})
    return 0


def check(arguments: argparse.Namespace, target: str) -> int:
    """Print that the tables are up to date, or raise what to do."""
    with closing(store_of(arguments, target)) as store:
        needed, version = latest_version(dialect_of(store.url)), store.version()
        if arguments.json:
            print_answer(arguments, "", {"version": version, "needed": needed})
        store.check()
    if not arguments.json:
        print_answer(arguments, f"up to date: schema version {version}", None)
    return 0


def print_missing(arguments: argparse.Namespace, target: str) -> int:
    """Print the SQL from the database's version on, or all of it where no database is named."""
    version = 0
    if target in KINDS:
        dialect, tables = KINDS[target], names(arguments.prefix, arguments.schema)
        refuse_schema(dialect, tables)
    else:
        with closing(store_of(arguments, target)) as store:
            dialect, tables = dialect_of(store.url), store.names
            found = store.schema_version()
        refuse_newer(found, dialect)
        version = found.migrated_to
    text = in_one_transaction(migration_script(tables, dialect, after=version), dialect, version)
    print_answer(
        arguments, text, {"version": version, "needed": latest_version(dialect), "sql": text}
    )
    return 0


def refuse_schema(dialect: Dialect, tables: Names) -> None:
    """Refuse a schema on SQLite, which has none."""
    if dialect == "sqlite" and tables.schema is not None:
        raise UsageError("--schema and DULY_SCHEMA are for PostgreSQL: on SQLite use --prefix")


def in_one_transaction(statements: str, dialect: Dialect, version: int) -> str:
    """Return a script that psql or sqlite3 can run as it stands."""
    if not statements:
        return f"-- Nothing to do: duly's tables are at schema version {version}."
    head = (
        f"-- duly {duly.__version__}: from schema version {version} to {latest_version(dialect)}."
    )
    return f"{head}\n{BEGIN[dialect]}\n\n{statements}\nCOMMIT;"


def dialect_of(url: str) -> Dialect:
    """Return the dialect of a URL; opening refuses what is no URL."""
    return KINDS.get(url) or ("sqlite" if url.startswith("sqlite:") else "postgres")
