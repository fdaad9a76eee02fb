"""``tx.execute`` takes ``:name`` parameters and gives rows by name, on every connection alike."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import duly
from tests.stores.join.asking import ASKERS, Ask, Asker

pytestmark = pytest.mark.slow

every_asker = pytest.mark.parametrize("asker", ASKERS, ids=str)
MOMENT = datetime(2026, 2, 3, 4, 5, 6, 789, UTC)
# PostgreSQL has a type for each kind of value; SQLite keeps what it is given.
COLUMNS = {
    "sqlite": "id INTEGER PRIMARY KEY, words TEXT, raw BLOB, n INTEGER, share REAL, flag INTEGER",
    "postgres": "id bigint PRIMARY KEY, words text, raw bytea, n bigint, share float8, flag bool,"
    " at timestamptz",
}
INSERT = "INSERT INTO {table} (id, words, n) VALUES (:id, :words, :n)"


@pytest.fixture
def url(asker: Asker, request: pytest.FixtureRequest) -> str:
    address: str = request.getfixturevalue(f"{asker.store}_url")
    if asker.store == "sqlite":
        with duly.store(address):
            pass
    return address


@pytest.fixture
def table(scope: str) -> str:
    """A name that no other test uses; the table is gone with the transaction."""
    return scope.replace("-", "_")


async def filled(ask: Ask, asker: Asker, table: str, count: int = 3) -> None:
    """A table of the user's with a few rows, numbered from one."""
    await ask(f"CREATE TABLE {table} ({COLUMNS[asker.store]})")
    for number in range(1, count + 1):
        await ask(INSERT.format(table=table), id=number, words="same", n=number * 10)


def text(asker: Asker, value: str) -> str | bytes:
    """As this connection shows text: how is the user's setting, and stays it."""
    return value.encode() if asker.name == "sqlite3-odd-settings" else value


@every_asker
async def test_values_of_every_kind_go_in_and_come_back(asker: Asker, url: str, table: str) -> None:
    values: dict[str, Any] = {
        "words": "caf\u00e9 \N{SNOWMAN} 100% 'quoted' :id",
        "raw": b"\x00\xff\x00%s",
        "n": -(2**62),
        "share": 0.1,
        "flag": True,
    }
    if asker.store == "postgres":
        values["at"] = MOMENT
    names = ", ".join(values)
    marks = ", ".join(f":{name}" for name in values)
    async with asker.open(url) as ask:
        await ask(f"CREATE TABLE {table} ({COLUMNS[asker.store]})")
        await ask(f"INSERT INTO {table} (id, {names}) VALUES (:id, {marks})", id=1, **values)
        nothing = dict.fromkeys(values)
        await ask(f"INSERT INTO {table} (id, {names}) VALUES (:id, {marks})", id=2, **nothing)
        first, second = await ask(f"SELECT {names} FROM {table} ORDER BY id")
    assert dict(second) == nothing
    assert dict(first) == values | {"words": text(asker, values["words"])}


@every_asker
async def test_a_colon_or_a_percent_sign_is_text_wherever_it_is_not_a_parameter(
    asker: Asker, url: str
) -> None:
    cast = "::bigint" if asker.store == "postgres" else ""
    statement = f"""
        SELECT :n{cast} + :n{cast} AS doubled,  -- 100% of :nobody's comment, and it's open
               ':n %s %(n)s %% ::int $1 ?' AS said, /* :no 'parameter % */
               10 % 4 AS rest, 7 AS "of :n %"
    """
    async with asker.open(url) as ask:
        [row] = await ask(statement, n=21)
    assert dict(row) == {
        "doubled": 42,
        "said": text(asker, ":n %s %(n)s %% ::int $1 ?"),
        "rest": 2,
        "of :n %": 7,
    }


@every_asker
async def test_a_statement_without_values_goes_as_it_is_written(asker: Asker, url: str) -> None:
    async with asker.open(url) as ask:
        [row] = await ask("SELECT 17 % 5 AS rest, '%s %(a)s ::b :c' AS said")
    assert dict(row) == {"rest": 2, "said": text(asker, "%s %(a)s ::b :c")}


@every_asker
async def test_rows_are_dictionaries_whatever_the_driver_makes_of_them(
    asker: Asker, url: str, table: str
) -> None:
    async with asker.open(url) as ask:
        await filled(ask, asker, table)
        rows = await ask(f"SELECT id, n FROM {table} WHERE n > :least ORDER BY id", least=10)
    assert list(rows) == [{"id": 2, "n": 20}, {"id": 3, "n": 30}]
    assert [list(row) for row in rows] == [["id", "n"]] * 2
    assert rows[0].get("nothing") is None


@every_asker
async def test_a_write_without_returning_gives_no_rows_and_says_how_many_it_touched(
    asker: Asker, url: str, table: str
) -> None:
    async with asker.open(url) as ask:
        made = await ask(f"CREATE TABLE {table} ({COLUMNS[asker.store]})")
        assert (list(made), made.rowcount) == ([], -1)
        inserted = await ask(INSERT.format(table=table), id=1, words="a", n=1)
        assert (list(inserted), inserted.rowcount) == ([], 1)
        await ask(INSERT.format(table=table), id=2, words="a", n=2)
        updated = await ask(f"UPDATE {table} SET n = n + :more", more=1)
        assert (list(updated), updated.rowcount) == ([], 2)
        missed = await ask(f"UPDATE {table} SET n = 0 WHERE id = :id", id=99)
        assert (list(missed), missed.rowcount) == ([], 0)
        deleted = await ask(f"DELETE FROM {table} WHERE id = :id", id=1)
        assert (list(deleted), deleted.rowcount) == ([], 1)


@every_asker
async def test_a_write_with_returning_gives_its_rows_and_their_number(
    asker: Asker, url: str, table: str
) -> None:
    async with asker.open(url) as ask:
        await filled(ask, asker, table)
        rows = await ask(f"UPDATE {table} SET n = 0 WHERE id < :below RETURNING id", below=3)
        assert sorted(row["id"] for row in rows) == [1, 2]
        assert rows.rowcount == 2
        none = await ask(f"DELETE FROM {table} WHERE id = :id RETURNING id", id=99)
        assert (list(none), none.rowcount) == ([], 0)


async def twice(ask: Ask, table: str) -> None:
    await ask(INSERT.format(table=table), id=1, words="again", n=1)


async def nonsense(ask: Ask, table: str) -> None:
    await ask(f"SELEKT {table}")


async def unknown_table(ask: Ask, table: str) -> None:
    await ask("SELECT * FROM there_is_no_such_table")


@every_asker
@pytest.mark.parametrize("mistake", [twice, nonsense, unknown_table])
async def test_errors_of_the_users_statements_stay_the_drivers_own(
    asker: Asker, url: str, table: str, mistake: Callable[[Ask, str], Any]
) -> None:
    async with asker.open(url) as ask:
        await filled(ask, asker, table)
        with pytest.raises(Exception) as caught:  # noqa: PT011  # which one is the driver's word
            await mistake(ask, table)
    assert not isinstance(caught.value, duly.errors.DulyError)
    assert type(caught.value).__module__.split(".")[0] == asker.driver


@every_asker
async def test_a_parameter_without_a_value_is_named_and_values_to_spare_are_ignored(
    asker: Asker, url: str
) -> None:
    cast = "::bigint" if asker.store == "postgres" else ""
    async with asker.open(url) as ask:
        [row] = await ask(f"SELECT :n{cast} AS n", n=1, spare=timedelta(1))
        assert row["n"] == 1
        with pytest.raises(Exception, match=r"missing|supply a value|binding"):
            await ask(f"SELECT :n{cast} + :missing{cast} AS n", n=1)


@every_asker
@pytest.mark.parametrize("statement", [None, 1, b"SELECT 1", ["SELECT 1"], object()])
async def test_what_is_no_text_is_refused_with_an_example(
    asker: Asker, url: str, statement: object
) -> None:
    async with asker.open(url) as ask:
        with pytest.raises(
            duly.errors.UsageError, match="takes SQL as text, and its values by name"
        ):
            await ask(statement)
