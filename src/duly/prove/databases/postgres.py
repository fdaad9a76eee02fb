"""PostgreSQL: the database is renamed, and copies of it take its place, one for each case.

So nothing of it can be lost, and it serves as the template. A proof that was ended in the middle
leaves it under that name, and the next one says so: the copy may have been used since, and only the
user knows which of them is the right one.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import closing, contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

from duly.core.errors import UsageError
from duly.core.extras import needs
from duly.core.session import database_time
from duly.prove.databases.base import (
    AGING,
    LEFT,
    SHIFT,
    STAGED,
    Column,
    Table,
    UnfinishedWork,
    duly_table_names,
    is_wanted,
)
from duly.prove.databases.failures import place_of
from duly.prove.databases.pending_work import pending_work
from duly.prove.databases.sqlite import error_line

with needs("postgres", "psycopg"):
    import psycopg
    from psycopg import sql
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
    from psycopg.rows import dict_row, tuple_row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from duly.core.clock import Clock
    from duly.core.defaults import Names
    from duly.prove.databases.base import Rows

SUFFIX = "_before_duly_prove"
LONGEST = 63  # of a name in PostgreSQL
FOR_TESTS = re.compile(r"test|prove", re.IGNORECASE)
MAINTENANCE = "postgres"
# Seconds for a connection to the server.
PATIENCE = 10
TABLES = """
SELECT space.nspname AS schema, one.relname AS name, one.oid AS oid
  FROM pg_class AS one JOIN pg_namespace AS space ON space.oid = one.relnamespace
 WHERE one.relkind = 'r' AND space.nspname !~ '^(pg_|information_schema$)'
   AND NOT (one.relname = ANY(%s) AND space.nspname = coalesce(%s, space.nspname))
 ORDER BY 1, 2
"""
COLUMNS = """
SELECT one.attname AS name,
       one.attidentity <> '' OR one.attgenerated <> ''
         OR coalesce(pg_get_expr(fallback.adbin, fallback.adrelid), '') ~ '(nextval|random|uuid)'
         AS made,
       coalesce((SELECT array_position(found.indkey::int2[], one.attnum)
                   FROM pg_index AS found
                  WHERE found.indrelid = one.attrelid AND found.indisprimary), -1) AS place
  FROM pg_attribute AS one
  LEFT JOIN pg_attrdef AS fallback
         ON fallback.adrelid = one.attrelid AND fallback.adnum = one.attnum
 WHERE one.attrelid = %s AND one.attnum > 0 AND NOT one.attisdropped
 ORDER BY one.attnum
"""


MOVED = """
SELECT setval(format('%%I.%%I', schemaname, sequencename)::regclass,
              coalesce(last_value, start_value) + %s)
  FROM pg_sequences
"""


class RestorablePostgres:
    """One database.

    Args:
        url: its address.
        names: what duly's tables in it are called.
        disposable: whether it may be dropped although its name does not say that it is for tests.
    """

    def __init__(self, url: str, names: Names, *, disposable: bool) -> None:
        self._url = url
        self._names = names
        self.name = str(conninfo_to_dict(url).get("dbname") or "")
        if not self.name:
            raise UsageError(
                "the application's address must name its database: postgresql://…/shop_test"
            )
        if not disposable and FOR_TESTS.search(self.name) is None:
            raise UsageError(
                f"the database {self.name!r} may be in use: a proof fills it and puts it back many "
                "times. Use one whose name holds 'test' or 'prove', or say --database-is-disposable"
            )
        self._aside = self.original_place = aside_name(self.name)
        self.files: list[Path] = []
        self._turn = connect_for_maintenance(url)
        try:
            self._take_turn()
            self._step_aside()
        except BaseException:
            self._turn.close()
            raise

    def _take_turn(self) -> None:
        """One proof of a database at a time; the lock ends with the connection."""
        asked = "SELECT pg_try_advisory_lock(hashtext(%s))"
        found = self._turn.execute(asked, [f"duly prove {self.name}"]).fetchone()
        if found is None or not found[0]:
            raise UsageError(f"another proof is using {self.name}: wait until it is over")

    def _step_aside(self) -> None:
        with self._server() as server:
            if database_exists(server, self._aside):
                raise UsageError(
                    f"a proof was ended in the middle: {self.name} is as one of its cases made it, "
                    f"and {self._aside} is what it was before. Drop the one that you do not want, "
                    f"see to it that the other is called {self.name}, and begin again"
                )
            run_statement(server, "ALTER DATABASE {} RENAME TO {}", self.name, self._aside)

    def shift_numbers(self) -> None:
        """Let sequences go on from elsewhere."""
        with closing(psycopg.connect(self._url, autocommit=True)) as connection:
            connection.execute(MOVED, [SHIFT])

    def put_back(self) -> None:
        """A fresh copy."""
        with self._server() as server:
            drop_database(server, self.name)
            run_statement(server, "CREATE DATABASE {} TEMPLATE {}", self.name, self._aside)

    def mark_start(self, place: Path) -> None:
        """Cases begin with the template: its tables are made by `duly migrate`, not by a case."""

    def restore_original(self) -> None:
        """The database itself again."""
        try:
            with self._server() as server:
                drop_database(server, self.name)
                run_statement(server, "ALTER DATABASE {} RENAME TO {}", self._aside, self.name)
        finally:
            self._turn.close()

    def save_copy(self, place: Path) -> str:  # noqa: ARG002  # it stays in the server
        """A copy of it as it is now, in the same server, under a name that nothing has."""
        with self._server() as server:
            kept = next(
                name for name in names_of_failed(self.name) if not database_exists(server, name)
            )
            run_statement(server, "CREATE DATABASE {} TEMPLATE {}", kept, self.name)
        return f"the database {kept}"

    @contextmanager
    def _server(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection to the server, not to the database."""
        with closing(connect_for_maintenance(self._url)) as server:
            try:
                yield server
            except psycopg.errors.InsufficientPrivilege as problem:
                raise UsageError(
                    f"{problem.diag.message_primary}: a proof makes copies of {self.name}. Let its "
                    "role own it, and ALTER ROLE … CREATEDB"
                ) from None
            except psycopg.errors.ObjectInUse as problem:
                told = f"{problem.diag.message_primary} ({problem.diag.message_detail})"
                raise UsageError(
                    f"{told}. A proof makes copies of it: close your own connections, and stop "
                    "what uses it"
                ) from None

    def contents(self, wanted: Sequence[str] | None) -> list[tuple[Table, Rows]]:
        """What is in the tables that are not duly's, and what waits in these."""
        with closing(psycopg.connect(self._url, row_factory=dict_row)) as connection:
            ours = [sorted(duly_table_names(self._names)), self._names.schema]
            tables = [
                describe_table(connection, row)
                for row in connection.execute(TABLES, ours).fetchall()
                if is_wanted(f"{row['schema']}.{row['name']}", wanted)
            ]
            found = [(table, rows_of(connection, table)) for table in tables]
            plainly = connection.cursor(row_factory=tuple_row)
            return found + pending_work(
                self._names, lambda asked: plainly.execute(asked.encode()).fetchall()
            )


class PostgresUnderProof:
    """duly's own tables: for the end of leases, and for what is left."""

    def __init__(self, url: str, names: Names) -> None:
        self._url = url
        self._names = names

    def prepare(self) -> None:
        """Make nothing: whether duly's tables are there is said by the first case."""

    @contextmanager
    def connected(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection for the user's own questions."""
        with closing(psycopg.connect(self._url)) as connection:
            yield connection

    def age(self, clock: Clock | None = None) -> None:
        """Let every lease run out, and every wait for another attempt be over."""
        told = database_time(clock)
        now = "clock_timestamp()"
        if told is not None:
            now = f"(timestamptz 'epoch' + {told} * interval '1 microsecond')"
        past = f"{now} - interval '1 microsecond'"
        with closing(psycopg.connect(self._url)) as connection, connection:
            for statement in self._render(AGING, past=past, now=now, no="false"):
                connection.execute(statement.encode())

    def staged(self) -> bool:
        """Whether there are messages."""
        with closing(psycopg.connect(self._url)) as connection:
            [statement] = self._render((STAGED,))
            return connection.execute(statement.encode()).fetchone() is not None

    def left(self) -> list[UnfinishedWork]:
        """What was begun and is not done."""
        with closing(psycopg.connect(self._url)) as connection:
            [statement] = self._render((LEFT,), waiting="waiting")
            found = connection.execute(statement.encode()).fetchall()
            return [
                UnfinishedWork(what, name, state, error_line(error), place_of(error))
                for what, name, state, error in found
            ]

    def _render(self, statements: Sequence[str], **values: Any) -> Iterator[str]:
        tables = {one: self._names.table(one) for one in ("jobs", "outbox", "claims")}
        return (statement.format(**tables, **values) for statement in statements)


def describe_table(connection: psycopg.Connection[Any], found: dict[str, Any]) -> Table:
    """A table by what the catalogue says of it."""
    columns = connection.execute(COLUMNS, [found["oid"]]).fetchall()
    keyed = sorted((row["place"], row["name"]) for row in columns if row["place"] >= 0)
    name = found["name"] if found["schema"] == "public" else f"{found['schema']}.{found['name']}"
    return Table(
        name,
        tuple(Column(row["name"], row["made"]) for row in columns),
        tuple(name for _, name in keyed),
    )


def rows_of(connection: psycopg.Connection[Any], table: Table) -> Rows:
    """Every row."""
    asked = sql.SQL("SELECT * FROM {}").format(sql.Identifier(*table.name.split(".")))
    return connection.execute(asked).fetchall()


def connect_for_maintenance(url: str) -> psycopg.Connection[Any]:
    """A connection to a database of the server that a proof leaves alone."""
    try:
        return psycopg.connect(
            make_conninfo(url, dbname=MAINTENANCE), autocommit=True, connect_timeout=PATIENCE
        )
    except psycopg.OperationalError as problem:
        raise UsageError(f"a proof needs the server's database {MAINTENANCE}: {problem}") from None


def aside_name(name: str) -> str:
    """What a database is called during a proof; two long names must not meet in one."""
    told = hashlib.sha256(name.encode()).hexdigest()[:8]
    room = LONGEST - len(SUFFIX) - len(told) - 1
    return f"{name[:room]}_{told}{SUFFIX}"


def database_exists(server: psycopg.Connection[Any], name: str) -> bool:
    """Whether there is a database of this name."""
    found = server.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
    return found is not None


def names_of_failed(name: str) -> Iterator[str]:
    """What a failed case of a database may be called, one after the other."""
    for number in count(1):
        ending = "_failed" if number == 1 else f"_failed_{number}"
        yield name[: LONGEST - len(ending)] + ending


def drop_database(server: psycopg.Connection[Any], name: str) -> None:
    """Drop a database, even with clients connected to it."""
    run_statement(server, "DROP DATABASE IF EXISTS {} WITH (FORCE)", name)


def run_statement(server: psycopg.Connection[Any], statement: str, *names: str) -> None:
    """Run a statement about databases."""
    told = sql.SQL(statement).format(*(sql.Identifier(name) for name in names))
    server.execute(told)
