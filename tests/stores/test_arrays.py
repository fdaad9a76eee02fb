"""Arrays that duly builds itself arrive as those of psycopg do."""

import subprocess
import sys
from typing import Any

import pytest

import duly
from duly.core.defaults import WAIT
from duly.stores.postgres.arrays import build_arrays
from duly.stores.postgres.session import PostgresSession
from duly.stores.sql.placeholders import Prepared, prepare

CASES: list[tuple[str, list[Any]]] = [
    ("text", []),
    ("text", ["one"]),
    ("text", ["", "Zoë", "two words", "\\", '"', "{}", "NULL", "\N{SNOWMAN}" * 300]),
    ("text", ["none", None, "of", None]),
    ("text", [None]),
    ("bytea", []),
    ("bytea", [b"\x00" * 32, b"\xff" * 32]),
    ("bytea", [b""]),
    ("bytea", [b"", b"\x00", b"\\x", bytes(range(256)) * 9]),
    ("bytea", [bytes(32), None]),
    ("integer", []),
    ("integer", [0, 1, -1, 2**31 - 1, -(2**31)]),
    ("bigint", []),
    ("bigint", [0, -1, 2**63 - 1, -(2**63), None]),
]


@pytest.mark.parametrize(("element", "values"), CASES)
@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_what_is_sent_as_an_array_arrives_as_it_is(
    postgres_url: str, mode: str, element: str, values: list[Any]
) -> None:
    statement = prepare(f"SELECT :values::{element}[] AS values", "pyformat")

    async def ask(session: Any) -> object:
        assert isinstance(session, PostgresSession)
        [row] = await session._adapter.fetch(statement, {"values": values})
        return row["values"]

    async with duly.store(postgres_url) as store:
        runner = store.sync_runner if mode == "sync" else store.async_runner
        assert await runner.run(ask, wait=WAIT) == values
        store.close()


@pytest.mark.parametrize(
    ("element", "values"),
    [("text", [1]), ("bytea", ["x"]), ("integer", [True]), ("text", [b""]), ("uuid", ["x"])],
)
def test_an_array_that_is_not_what_its_cast_says_is_left_to_psycopg(
    element: str, values: list[Any]
) -> None:
    statement = Prepared("", ("given", "one"), (("given", element),))
    given: dict[str, Any] = {"given": values, "one": 1}
    assert build_arrays(statement, given) == given


# The connection's types are fixed by its first statement, before duly tells psycopg of its arrays.
EARLIER = """
import sys, psycopg
connection = psycopg.connect(sys.argv[1])
connection.execute("SELECT 1")
import duly
print([answer.first for answer in duly.dedup_many(connection, sys.argv[2], ["one", "two"])])
"""


def test_a_connection_of_the_users_that_was_there_before_duly_keeps_its_arrays(
    postgres_url: str, scope: str
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", EARLIER, postgres_url, scope],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (ended.stdout, ended.stderr) == ("[True, True]\n", "")
