"""Migrations: numbered SQL files, each applied whole in one transaction under one lock.

``duly_meta`` has two numbers: ``migrated_to`` is the last one applied, and ``schema_version`` the
oldest code that may run on the tables, by the last migration that it knows. Code up to version 6
knows the second alone and refuses one above its own, so that both old and new releases run on
tables that only grew. A migrator that dies leaves either all of a migration or none of it; the next
one goes on from there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from duly.core.defaults import DEFAULT_PREFIX
from duly.core.errors import SchemaMismatch
from duly.core.ids import uuid7
from duly.stores.sql.placeholders import PIECE
from duly.stores.sql.statements import fill_slots, read_sql_file

if TYPE_CHECKING:
    from duly.core.defaults import Names
    from duly.core.session import Dialect, Session

NAME = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")
TOKEN = re.compile(rf"{PIECE.pattern}|(?P<end>;)", PIECE.flags)
META_EXISTS, META_READ, META_WRITE = "meta_exists", "meta_read", "meta_write"
MIGRATE_LOCK, SCHEMA_MISSING = "migrate_lock", "schema_missing"
SCHEMA_VERSION, MIGRATED_TO, INSTALLATION = "schema_version", "migrated_to", "installation_id"
# The line by which a migration says that older code goes on working. Without it none does.
OLDEST_CODE = re.compile(r"^-- oldest code: (\d+)$", re.MULTILINE)

# What a migration applied by hand must record; apply_next writes the same with parameters.
VERSION_NOTE = """INSERT INTO {meta} (name, value) VALUES ('{name}', '{number}')
    ON CONFLICT (name) DO UPDATE SET value = excluded.value
     WHERE CAST({meta}.value AS integer) < CAST(excluded.value AS integer);
"""
INSTALLATION_NOTE = """INSERT INTO {meta} (name, value) VALUES ('installation_id', {id})
    ON CONFLICT (name) DO NOTHING;
"""
# Drawn by the database: one printed script may be run on many.
INSTALLATION_ID: dict[Dialect, str] = {
    "postgres": "gen_random_uuid()::text",
    "sqlite": "lower(hex(randomblob(16)))",
}


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    number: int
    name: str
    text: str

    @property
    def oldest_code(self) -> int:
        """The oldest schema version whose code may run on the tables once this is applied."""
        found = OLDEST_CODE.search(self.text)
        return self.number if found is None else int(found[1])

    def statements(self, dialect: Dialect, names: Names) -> list[str]:
        """Its statements, with the table names in place."""
        return split_statements(fill_slots(self.text, dialect, names))


class SchemaVersion(NamedTuple):
    """What the tables are at: the last migration, and the oldest code that may run on them."""

    migrated_to: int = 0
    oldest_code: int = 0


@lru_cache(maxsize=4)
def migrations(dialect: Dialect) -> tuple[Migration, ...]:
    """Every migration of a dialect, in order."""
    folder = files("duly.stores") / dialect / "migrations"
    found = sorted(
        (match for entry in folder.iterdir() if (match := NAME.fullmatch(entry.name))),
        key=lambda match: match[0],
    )
    return tuple(
        Migration(
            int(match[1]),
            match[0].removesuffix(".sql"),
            read_sql_file(dialect, "migrations", match[0]),
        )
        for match in found
    )


def latest_version(dialect: Dialect) -> int:
    """The schema version that this duly was written for."""
    return migrations(dialect)[-1].number


def split_statements(script: str) -> list[str]:
    """Cut a script at its semicolons, but for those in quotes and comments."""
    pieces, start = [], 0
    for found in TOKEN.finditer(script):
        if found["end"]:
            pieces.append(script[start : found.start()])
            start = found.end()
    pieces.append(script[start:])
    return [text for piece in pieces if (text := strip_leading_comments(piece))]


def strip_leading_comments(statement: str) -> str:
    """A statement without the comment lines before it."""
    lines = statement.splitlines()
    while lines and (not lines[0].strip() or lines[0].lstrip().startswith("--")):
        del lines[0]
    return "\n".join(lines).strip()


async def schema_version(session: Session) -> SchemaVersion:
    """What the tables are at; zeros where there are none."""
    names = session.names
    table = names.table("meta") if session.dialect == "postgres" else f"{names.prefix}meta"
    [row] = await session.rows(META_EXISTS, table=table)
    if not row["found"]:
        return SchemaVersion()
    facts = {fact["name"]: fact["value"] for fact in await session.rows(META_READ)}

    def number(name: str) -> int:
        # A SQLite connection whose text_factory is bytes gives the names as bytes.
        return int(facts.get(name) or facts.get(name.encode()) or 0)

    oldest = number(SCHEMA_VERSION)
    # Up to version 6 there was the one number.
    return SchemaVersion(max(number(MIGRATED_TO), oldest), oldest)


async def apply_next(session: Session) -> str | None:
    """Apply the one migration that comes next, in the open transaction; None where none is left.

    The version is read again after the lock: another migrator may have been quicker.
    """
    names, dialect = session.names, session.dialect
    await session.rows(MIGRATE_LOCK, table=names.table("meta"))
    version = await schema_version(session)
    refuse_newer(version, dialect)
    pending = [one for one in migrations(dialect) if one.number > version.migrated_to]
    if not pending:
        return None
    if not version.migrated_to:
        await make_schema(session)
    migration = pending[0]
    for statement in migration.statements(dialect, names):
        await session.execute_raw(statement)
    if not version.migrated_to:
        await session.rows(META_WRITE, name=INSTALLATION, value=str(uuid7()))
    oldest = max(version.oldest_code, migration.oldest_code)
    await session.rows(META_WRITE, name=SCHEMA_VERSION, value=str(oldest))
    await session.rows(META_WRITE, name=MIGRATED_TO, value=str(migration.number))
    return migration.name


async def apply_all(session: Session) -> list[str]:
    """Apply everything that is missing in the caller's transaction."""
    await session.begin(None)
    applied: list[str] = []
    while (name := await apply_next(session)) is not None:
        applied.append(name)
    return applied


async def make_schema(session: Session) -> None:
    """Create the schema of the tables, if it is missing."""
    names = session.names
    if names.schema is None:
        return
    # A migrator of another prefix may be creating the same schema, under a lock of its own.
    await session.rows(MIGRATE_LOCK, table=f'"{names.schema}"')
    [row] = await session.rows(SCHEMA_MISSING, schema=names.schema)
    if row["missing"]:
        await session.execute_raw(f'CREATE SCHEMA "{names.schema}"')


async def check_schema(session: Session) -> None:
    """Raise unless this duly may run on the tables and finds in them all that it needs."""
    names, dialect = session.names, session.dialect
    version = await schema_version(session)
    refuse_newer(version, dialect)
    if not version.migrated_to:
        raise SchemaMismatch(
            f"duly's tables ({names.table('claims')}, ...) are not in this database: "
            f"run {migrate_command(names)}"
        )
    if version.migrated_to < latest_version(dialect):
        raise SchemaMismatch(
            f"duly's tables are at schema version {version.migrated_to}, this duly needs "
            f"{latest_version(dialect)}: "
            f"run {migrate_command(names)}"
        )


def migrate_command(names: Names) -> str:
    """The command that makes or updates the tables, by URL or, with begin=, by the app."""
    return f"`duly migrate URL{migrate_options(names)}`, or `duly migrate shop:app` for your app"


def migrate_options(names: Names) -> str:
    """What ``duly migrate`` must be told to find the same tables."""
    prefix = "" if names.prefix == DEFAULT_PREFIX else f" --prefix {names.prefix}"
    return prefix if names.schema is None else f"{prefix} --schema {names.schema}"


def refuse_newer(version: SchemaVersion, dialect: Dialect) -> None:
    """Refuse tables on which only newer code may run: their meaning is not known here."""
    if version.oldest_code > latest_version(dialect):
        raise SchemaMismatch(
            f"duly's tables are at schema version {version.migrated_to} and take code from version "
            f"{version.oldest_code} on, this duly knows only {latest_version(dialect)}: install "
            "the newer duly that migrated them"
        )


def migration_script(names: Names, dialect: Dialect, *, after: int = 0) -> str:
    """The SQL that ``duly migrate`` would run from a version on, for review or another tool."""
    parts = []
    if names.schema is not None and after == 0:
        parts.append(f'CREATE SCHEMA IF NOT EXISTS "{names.schema}";\n')
    for one in migrations(dialect):
        if one.number > after:
            parts.append(fill_slots(one.text, dialect, names))
            if one.number == 1:
                parts.append(installation_note(names, dialect))
            for name, number in ((SCHEMA_VERSION, one.oldest_code), (MIGRATED_TO, one.number)):
                parts.append(
                    VERSION_NOTE.format(meta=names.table("meta"), name=name, number=number)
                )
    return "\n".join(parts)


def installation_note(names: Names, dialect: Dialect) -> str:
    """The statement that names an installation made by hand."""
    return INSTALLATION_NOTE.format(meta=names.table("meta"), id=INSTALLATION_ID[dialect])
