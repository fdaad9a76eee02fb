"""What a database holds under one prefix: all that a migration makes, in a form to compare.

The prefix is taken out of every name, so that two installations side by side compare as equal.
"""

import re
import sqlite3
from pathlib import Path

import psycopg

Catalog = dict[str, list[tuple[object, ...]]]

POSTGRES = {
    "tables and indexes": """
        SELECT relation.relname, relation.relkind::text, relation.relpersistence::text,
               relation.reloptions
          FROM pg_class AS relation
         WHERE relation.relnamespace = %(schema)s::regnamespace
           AND starts_with(relation.relname, %(prefix)s)
         ORDER BY 1""",
    "columns": """
        SELECT relation.relname, field.attname, field.attnum,
               format_type(field.atttypid, field.atttypmod), field.attnotnull,
               field.attcollation::regcollation::text, field.attstorage::text,
               pg_get_expr(preset.adbin, preset.adrelid)
          FROM pg_class AS relation
          JOIN pg_attribute AS field ON field.attrelid = relation.oid AND field.attnum > 0
          LEFT JOIN pg_attrdef AS preset
            ON preset.adrelid = relation.oid AND preset.adnum = field.attnum
         WHERE relation.relnamespace = %(schema)s::regnamespace
           AND starts_with(relation.relname, %(prefix)s)
         ORDER BY 1, 3""",
    "constraints": """
        SELECT conrelid::regclass::text, conname, contype::text, pg_get_constraintdef(oid)
          FROM pg_constraint
         WHERE connamespace = %(schema)s::regnamespace AND starts_with(conname, %(prefix)s)
         ORDER BY 1, 2""",
    "functions": """
        SELECT function.proname, pg_get_function_arguments(function.oid),
               pg_get_function_result(function.oid), function.provolatile::text, function.prosrc
          FROM pg_proc AS function
         WHERE function.pronamespace = %(schema)s::regnamespace
           AND starts_with(function.proname, %(prefix)s)
         ORDER BY 1""",
    "index definitions": """
        SELECT indexname, indexdef
          FROM pg_indexes
         WHERE schemaname = %(schema)s AND starts_with(indexname, %(prefix)s)
         ORDER BY 1""",
}
COMMENT = re.compile(r"--[^\n]*")
MEANINGLESS = re.compile(r'["\s]+')
# SQLite writes an added column right behind the last one.
CLOSING = re.compile(r" ([,)])")


def catalog(url: str, prefix: str, schema: str = "public") -> Catalog:
    """Everything under a prefix, in the database at a URL."""
    if url.startswith("sqlite:///"):
        return sqlite_catalog(sqlite_path(url), prefix)
    with psycopg.connect(url) as connection:
        wanted = {"prefix": prefix, "schema": schema}
        return {
            part: [without(prefix, row) for row in connection.execute(query, wanted)]
            for part, query in POSTGRES.items()
        }


def sqlite_catalog(path: Path, prefix: str) -> Catalog:
    """The same for SQLite, whose constraints are found only in the text of its tables."""
    connection = sqlite3.connect(path)
    try:
        made = connection.execute(
            "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name LIKE ? ORDER BY 1, 2",
            [f"{prefix}%"],
        ).fetchall()
        kinds = connection.execute("PRAGMA table_list").fetchall()
        columns = [
            (name, *column)
            for kind, name, _, _ in made
            if kind == "table"
            for column in connection.execute(f'PRAGMA table_xinfo("{name}")')
        ]
    finally:
        connection.close()
    return {
        "definitions": [without(prefix, (*names, meaning(sql))) for *names, sql in made],
        "kinds of tables": sorted(without(prefix, row) for row in kinds if prefix in row[1]),
        "columns": [without(prefix, row) for row in columns],
    }


def facts(url: str, prefix: str = "duly_") -> dict[str, str]:
    """What duly has noted about itself; nothing where its table is missing."""
    query = f'SELECT name, value FROM "{prefix}meta"'
    if url.startswith("sqlite:///"):
        connection = sqlite3.connect(sqlite_path(url))
        try:
            return dict(connection.execute(query).fetchall())
        except sqlite3.OperationalError:
            return {}
        finally:
            connection.close()
    with psycopg.connect(url) as session:
        try:
            return dict(session.execute(query.encode()).fetchall())
        except psycopg.errors.UndefinedTable:
            return {}


def note(url: str, name: str, value: str, prefix: str = "duly_") -> None:
    """Overwrite one of those facts, as a newer duly would."""
    query = f"UPDATE \"{prefix}meta\" SET value = '{value}' WHERE name = '{name}'"
    if url.startswith("sqlite:///"):
        connection = sqlite3.connect(sqlite_path(url))
        with connection:
            connection.execute(query)
        connection.close()
    else:
        with psycopg.connect(url) as session:
            session.execute(query.encode())


def sqlite_path(url: str) -> Path:
    """The file of an SQLite URL."""
    return Path(url.removeprefix("sqlite:///"))


def without(prefix: str, row: tuple[object, ...]) -> tuple[object, ...]:
    """A row with the prefix taken out of its texts."""
    return tuple(value.replace(prefix, "") if isinstance(value, str) else value for value in row)


def meaning(sql: str | None) -> str | None:
    """The text of a definition without comments, quotes and spaces."""
    if sql is None:
        return None
    return CLOSING.sub(r"\1", MEANINGLESS.sub(" ", COMMENT.sub("", sql))).strip()
