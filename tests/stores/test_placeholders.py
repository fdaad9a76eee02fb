"""``:name`` is a parameter only where it is one; the rest of a statement goes as it came."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import asyncpg
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duly.stores.sql.placeholders import Prepared, Style, names_in, prepare

Run = Callable[[str, Mapping[str, object]], list[object]]

# A text that looks like everything at once.
TRICKS = """:a %s %(a)s %% ::int -- /* */ $1 $$ $a$ ?"""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a select list, the values it takes, and what it selects."""

    text: str
    selects: object
    values: tuple[tuple[str, object], ...] = ()


def quoted(text: str) -> str:
    return text.replace("'", "''")


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


# No NUL, which PostgreSQL's text cannot hold, and no surrogates.
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0")) | st.lists(
    st.sampled_from([*TRICKS.split(), "'", '"', "\\", ";", "\n", "x"])
).map("".join)
NAMES = st.sampled_from(["a", "b", "key_text", "A1", "_x"])
STRINGS = TEXTS.map(lambda text: Piece(f"'{quoted(text)}'", text))
SHORT = TEXTS.filter(lambda text: 0 < len(text.encode()) < 60)
ALIASES = SHORT.map(lambda text: Piece('7 AS "{}"'.format(text.replace('"', '""')), 7))
COMMENTS = st.builds(
    lambda text: Piece(f"1 -- {text}\n", 1), TEXTS.filter(lambda text: not set("\r\n") & set(text))
) | st.builds(
    lambda text: Piece(f"2 /* {text} */", 2),
    # A comment inside a comment ends twice on PostgreSQL and once on SQLite.
    TEXTS.filter(lambda text: "*/" not in f"{text} " and "/*" not in f" {text}"),
)
REMAINDERS = st.integers(1, 9).map(lambda number: Piece(f"10 % {number}", 10 % number))
BOTH = STRINGS | ALIASES | COMMENTS | REMAINDERS
SQLITE = BOTH | st.builds(
    lambda name, number: Piece(f":{name}", number, ((name, number),)),
    NAMES,
    st.integers(-(2**31), 2**31 - 1),
)
POSTGRES = (
    BOTH
    | st.builds(
        lambda name, number: Piece(f":{name}::int", number, ((name, number),)),
        NAMES,
        st.integers(-(2**31), 2**31 - 1),
    )
    | st.integers(0, 99).map(lambda number: Piece(f"'{number}'::int", number))
    | TEXTS.map(lambda text: Piece(f"E'{escaped(text)}'", text))
    | TEXTS.filter(lambda text: "$" not in text).map(lambda text: Piece(f"$${text}$$", text))
    | TEXTS.filter(lambda text: "$" not in text).map(lambda text: Piece(f"$q_1${text}$q_1$", text))
    # A word that ends in e before a string does not make it a string with escapes.
    | SHORT.map(lambda text: Piece(f"name'{quoted(text)}'", text))
)


def statement(pieces: list[Piece]) -> tuple[str, dict[str, object], list[object]]:
    """One statement of the pieces, its parameters, and the row it must return."""
    values: dict[str, object] = {}
    for piece in pieces:
        values.update(piece.values)
    # A name that occurs twice has one value: the last.
    row = [values[piece.values[0][0]] if piece.values else piece.selects for piece in pieces]
    return f"SELECT {', '.join(piece.text for piece in pieces)}", values, row


@pytest.fixture(scope="module")
def run_sqlite() -> Iterator[Run]:
    connection = sqlite3.connect(":memory:")

    def run(text: str, values: Mapping[str, object]) -> list[object]:
        prepared = prepare(text, "named")
        assert set(prepared.order) == set(values)
        return list(connection.execute(prepared.text, values).fetchone())

    yield run
    connection.close()


@pytest.fixture(scope="module")
def run_psycopg(postgres_server: str) -> Iterator[Run]:
    with psycopg.connect(postgres_server, autocommit=True, prepare_threshold=None) as connection:

        def run(text: str, values: Mapping[str, object]) -> list[object]:
            row = connection.execute(prepare(text, "pyformat").text.encode(), values).fetchone()
            assert row is not None
            return list(row)

        yield run


@pytest.fixture(scope="module")
def run_asyncpg(postgres_server: str) -> Iterator[Run]:
    with asyncio.Runner() as runner:
        connection: Any = runner.run(asyncpg.connect(postgres_server, statement_cache_size=0))

        def run(text: str, values: Mapping[str, object]) -> list[object]:
            prepared = prepare(text, "dollar")
            given = (values[name] for name in prepared.order)
            return list(runner.run(connection.fetchrow(prepared.text, *given)))

        yield run
        runner.run(connection.close())


ONE_SERVER = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@ONE_SERVER
@given(pieces=st.lists(SQLITE, min_size=1, max_size=6))
def test_on_sqlite_every_piece_keeps_its_meaning(run_sqlite: Run, pieces: list[Piece]) -> None:
    text, values, row = statement(pieces)
    assert run_sqlite(text, values) == row


@ONE_SERVER
@given(pieces=st.lists(POSTGRES, min_size=1, max_size=6))
def test_through_psycopg_every_piece_keeps_its_meaning(
    run_psycopg: Run, pieces: list[Piece]
) -> None:
    text, values, row = statement(pieces)
    assert run_psycopg(text, values) == row


@ONE_SERVER
@given(pieces=st.lists(POSTGRES, min_size=1, max_size=6))
def test_through_asyncpg_every_piece_keeps_its_meaning(
    run_asyncpg: Run, pieces: list[Piece]
) -> None:
    text, values, row = statement(pieces)
    assert run_asyncpg(text, values) == row


@pytest.mark.parametrize(
    "untouched",
    [
        "SELECT '1'::int",
        "SELECT ':a'",
        "SELECT 'it''s :a'",
        'SELECT 1 AS ":a"',
        "SELECT 1 -- :a",
        "SELECT 1 /* :a \n :b */",
        "SELECT $$:a$$, $tag$ $$ :b $tag$",
        r"SELECT E'\' :a'",
        "SELECT x := 1",
        "SELECT $t1$ :a $t1$ AS price$in$euro",
    ],
)
def test_what_is_no_parameter_goes_through_untouched(untouched: str) -> None:
    for style in get_args(Style):
        assert prepare(untouched, style) == Prepared(untouched, ())


def test_each_driver_gets_its_own_spelling() -> None:
    text = "SELECT :a::int % 2, ':a', :b, :a"
    assert prepare(text, "named") == Prepared(text, ("a", "b"))
    assert prepare(text, "dollar") == Prepared("SELECT $1::int % 2, ':a', $2, $1", ("a", "b"))
    assert prepare(text, "pyformat") == Prepared(
        "SELECT %(a)s::int %% 2, ':a', %(b)s, %(a)s", ("a", "b")
    )


def test_arrays_go_to_psycopg_in_binary() -> None:
    prepared = prepare("SELECT unnest(:a::bytea[]), :b :: text[], :c::text", "pyformat")
    assert prepared.text == "SELECT unnest(%(a)b::bytea[]), %(b)b :: text[], %(c)s::text"


def test_parameters_are_found_where_they_stand_and_nowhere_else() -> None:
    text = "SELECT :a, ':b', :c -- :d\n, \":e\", (:f), :a"
    assert list(names_in(text)) == ["a", "c", "f", "a"]


def test_a_comment_ends_with_its_line_however_that_ends(run_psycopg: Run) -> None:
    for line_end in ("\n", "\r\n", "\r"):
        assert run_psycopg(f"SELECT 1 -- :b{line_end} + :a::int", {"a": 2}) == [3]


def test_a_word_that_ends_in_e_makes_no_string_with_escapes(run_psycopg: Run) -> None:
    row = run_psycopg("SELECT name'\\', :a::int, 'b' LIKE'b'", {"a": 2})
    assert row == ["\\", 2, True]
