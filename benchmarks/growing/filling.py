"""Rows that are already there: one that duly wrote, many times over, made by the database itself.

Columns that no name is given for here are copied, so that a new column needs no change. Ids grow
with time, as duly's do; digests are spread, as duly's are; times lie within the last day.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.sql import SQL, Composable, Identifier

DIGEST = SQL("sha256(convert_to('old ' || n, 'UTF8'))")
EVENT = SQL(
    "(lpad(to_hex(1700000000000 + n), 12, '0') || '7' || substr(md5(n::text), 1, 3)"
    " || '8' || substr(md5(n::text), 4, 15))::uuid"
)
JOB = SQL(
    "(lpad(to_hex(1700000000000 + n), 12, '0') || '7' || substr(md5('job' || n), 1, 3)"
    " || '8' || substr(md5('job' || n), 4, 15))::uuid"
)
# What differs from row to row; times are moved back in any case.
OLD: dict[str, dict[str, Composable]] = {
    "duly_claims": {"digest": DIGEST, "key_text": SQL("'old ' || n")},
    "duly_events": {"id": EVENT, "digest": DIGEST, "event_id": SQL("'old ' || n")},
    "duly_deliveries": {"event": EVENT},
    "duly_history": {"job": JOB, "event": EVENT},
}
COLUMNS = """
SELECT column_name, data_type = 'timestamp with time zone'
  FROM information_schema.columns
 WHERE table_schema = current_schema() AND table_name = %s AND is_generated = 'NEVER'
 ORDER BY ordinal_position
"""
AGED = "one.{} - interval '1 day' * (1 - n::float8 / {})"
COPIES = """
INSERT INTO {table} ({columns})
SELECT {values}
  FROM (SELECT * FROM {table} LIMIT 1) AS one, generate_series({first}, {last}) AS n
"""
MORE_JOBS = """
INSERT INTO duly_jobs ({columns})
SELECT {values} FROM duly_jobs AS one, generate_series(1, {rounds}) AS n ORDER BY n LIMIT {number}
"""


def fill(url: str, first: int, last: int) -> None:
    """Make the rows of events from the one number to the other, and settle the tables."""
    with psycopg.connect(url, autocommit=True) as connection:
        for table, differing in OLD.items():
            columns, values = [], []
            for name, is_time in columns_of(connection, table):
                copied = SQL(AGED if is_time else "one.{}").format(Identifier(name), last)
                columns.append(Identifier(name))
                values.append(differing.get(name, copied))
            statement = SQL(COPIES).format(
                table=Identifier(table),
                columns=SQL(", ").join(columns),
                values=SQL(", ").join(values),
                first=first,
                last=last,
            )
            connection.execute(statement)
        settle(connection)


def add_jobs(url: str, wanted: int) -> int:
    """Copy the jobs that are there, each as often as every other, up to so many; tell how many."""
    with psycopg.connect(url, autocommit=True) as connection:
        there = count_jobs(connection)
        if there < wanted:
            names = [name for name, _ in columns_of(connection, "duly_jobs")]
            values = [
                SQL("gen_random_uuid()") if name == "id" else SQL("one.{}").format(Identifier(name))
                for name in names
            ]
            statement = SQL(MORE_JOBS).format(
                columns=SQL(", ").join(map(Identifier, names)),
                values=SQL(", ").join(values),
                rounds=-(-wanted // there),
                number=wanted - there,
            )
            connection.execute(statement)
        connection.execute("ANALYZE duly_jobs")
        return count_jobs(connection)


def columns_of(connection: psycopg.Connection[Any], table: str) -> list[tuple[str, bool]]:
    """The name of each column, and whether it is a time."""
    return connection.execute(COLUMNS, (table,)).fetchall()


def count_jobs(connection: psycopg.Connection[Any]) -> int:
    """How many jobs there are."""
    row = connection.execute("SELECT count(*) FROM duly_jobs").fetchone()
    if row is None:
        raise AssertionError("a question without condition has one row")
    return int(row[0])


def settle(connection: psycopg.Connection[Any]) -> None:
    """Do now what the server would do while it is measured."""
    connection.execute("VACUUM (FREEZE, ANALYZE)")
    connection.execute("CHECKPOINT")
