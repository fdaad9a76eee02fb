"""A transaction for the user's code is committed at its end or gone, and leaves nothing behind."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta

import psycopg
import pytest

import duly
from duly.jobs.invoke import Unfinished
from tests.support.inboxes import done, found, looking
from tests.support.openings import WRITE, Colour, Site, a_site

EXITS: list[type[BaseException]] = [
    RuntimeError,
    KeyboardInterrupt,
    SystemExit,
    asyncio.CancelledError,
    duly.errors.LeaseLost,
]
A_MOMENT = timedelta(milliseconds=50)


@pytest.fixture(params=["sqlite", "postgres", "memory"])
def url(request: pytest.FixtureRequest) -> str:
    names = {"sqlite": "sqlite_url", "postgres": "own_postgres_url"}
    if request.param == "memory":
        return "memory:"
    address: str = request.getfixturevalue(names[request.param])
    return address


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> Colour:
    chosen: Colour = request.param
    return chosen


@contextmanager
def unfinished(message: str) -> Iterator[None]:
    """The block cannot be committed, and the fault is that of the code in it."""
    with pytest.raises(Unfinished) as caught:
        yield
    assert isinstance(caught.value.__cause__, duly.errors.UsageError)
    assert message in str(caught.value.__cause__)


async def test_what_the_block_wrote_is_committed_at_its_end_and_not_before(
    url: str, colour: Colour
) -> None:
    async with a_site(url, colour) as site:
        async with site.opened() as opened:
            await opened.session.execute(WRITE, {"note": "a"})
            assert site.notes() == []
        assert site.notes() == ["a"]


@pytest.mark.promise("I12", "one transaction")
@pytest.mark.parametrize("kind", EXITS)
async def test_whatever_leaves_the_block_takes_its_work_with_it(
    kind: type[BaseException], url: str, colour: Colour
) -> None:
    async with a_site(url, colour) as site:
        with pytest.raises(kind):
            async with site.opened() as opened:
                await opened.session.execute(WRITE, {"note": "a"})
                raise kind
        assert site.notes() == []
        await site.write("next")
        assert site.notes() == ["next"]


async def test_an_error_of_the_users_statement_stays_the_drivers_and_leaves_a_clean_connection(
    url: str, colour: Colour
) -> None:
    async with a_site(url, colour) as site:
        await site.write("a")
        for _ in range(3):
            with pytest.raises(Exception, match=r"(?i)unique") as caught:
                await site.write("a")
            assert not isinstance(caught.value, duly.errors.DulyError)
        await site.write("b")
        assert site.notes() == ["a", "b"]


async def test_an_error_that_was_swallowed_inside_is_not_taken_for_a_commit(
    own_postgres_url: str, colour: Colour
) -> None:
    """PostgreSQL answers the COMMIT of a failed transaction with a ROLLBACK, and no error."""
    async with a_site(own_postgres_url, colour) as site:
        await site.write("a")
        with unfinished("failed there and the error was swallowed"):
            async with site.opened() as opened:
                await opened.session.execute(WRITE, {"note": "b"})
                with pytest.raises(psycopg.errors.UniqueViolation):
                    await opened.session.execute(WRITE, {"note": "a"})
        assert site.notes() == ["a"]
        await site.write("b")


async def test_the_connection_is_the_drivers_own_inside_the_transaction(
    url: str, colour: Colour
) -> None:
    async with a_site(url, colour) as site:
        async with site.opened() as opened:
            if site.runner is site.store.async_runner and url.startswith("postgresql"):
                await opened.connection.execute("INSERT INTO notes VALUES ('a')")
            else:
                opened.connection.execute("INSERT INTO notes VALUES ('a')")
            rows = await opened.session.execute("SELECT note FROM notes", {})
            assert [row["note"] for row in rows] == ["a"]
            assert site.notes() == []
        assert site.notes() == ["a"]


async def test_a_transaction_that_was_ended_by_hand_is_reported(
    own_postgres_url: str, colour: Colour
) -> None:
    for statement in ("COMMIT", "ROLLBACK"):
        async with a_site(own_postgres_url, colour) as site:
            with unfinished("committed or rolled back inside"):
                async with site.opened() as opened:
                    await opened.session.execute(WRITE, {"note": "a"})
                    await opened.session.execute(statement, {})
            assert site.notes() == (["a"] if statement == "COMMIT" else [])
            await site.write("next")
            done(site.store, "DROP TABLE notes")


@pytest.mark.parametrize("statement", ["COMMIT", "END", "ROLLBACK", "BEGIN"])
@pytest.mark.parametrize("kind", ["sqlite", "memory"])
async def test_sqlite_lets_nobody_end_the_transaction_by_hand(
    kind: str, statement: str, colour: Colour, sqlite_url: str
) -> None:
    async with a_site(sqlite_url if kind == "sqlite" else "memory:", colour) as site:
        with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
            async with site.opened() as opened:
                await opened.session.execute(WRITE, {"note": "a"})
                await opened.session.execute(statement, {})
        assert site.notes() == []
        await site.write("next")
        assert site.notes() == ["next"]


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
async def test_a_refusal_to_end_the_transaction_may_be_swallowed_and_the_work_is_whole(
    kind: str, colour: Colour, sqlite_url: str
) -> None:
    async with a_site(sqlite_url if kind == "sqlite" else "memory:", colour) as site:
        async with site.opened() as opened:
            await opened.session.execute(WRITE, {"note": "a"})
            for end in (opened.connection.commit, opened.connection.rollback):
                with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
                    end()
            with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
                opened.connection.executescript("SELECT 1; COMMIT;")
            assert site.notes() == []
            opened.connection.execute("SAVEPOINT mine")
            opened.connection.execute("INSERT INTO notes VALUES ('b')")
            opened.connection.execute("ROLLBACK TO mine")
        assert site.notes() == ["a"]


@pytest.mark.promise("one transaction")
async def test_ledger_and_users_rows_stay_or_go_together(url: str, colour: Colour) -> None:
    async def write(site: Site, *, fails: bool) -> None:
        async with site.opened() as opened:
            await opened.session.execute(WRITE, {"note": "a"})
            await opened.session.rows("meta_write", name="mark", value="set")
            if fails:
                raise RuntimeError

    def left(site: Site) -> tuple[list[str], int]:
        return site.notes(), len(found(site.store, "SELECT 1 FROM duly_meta WHERE name = 'mark'"))

    async with a_site(url, colour) as site:
        with pytest.raises(RuntimeError):
            await write(site, fails=True)
        assert left(site) == ([], 0)
        await write(site, fails=False)
        assert left(site) == (["a"], 1)


async def test_a_lost_connection_is_the_stores_fault_and_the_next_one_works(
    own_postgres_url: str, colour: Colour
) -> None:
    async with a_site(own_postgres_url, colour) as site:
        with pytest.raises(duly.errors.StoreUnavailable, match="could not be reached"):
            async with site.opened() as opened:
                await opened.session.execute(WRITE, {"note": "a"})
                kill(own_postgres_url, opened.connection.info.backend_pid)
                await opened.session.execute(WRITE, {"note": "b"})
        await site.write("next")
        assert site.notes() == ["next"]


def kill(url: str, process: int) -> None:
    """End a connection from the server's side."""
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [process])


@asynccontextmanager
async def writing(site: Site) -> AsyncIterator[None]:
    """Another process writes to the file and does not end."""
    with looking(site.store) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


async def test_the_wait_for_another_process_is_bounded_and_leaves_no_lock(
    sqlite_url: str, colour: Colour
) -> None:
    async with a_site(sqlite_url, colour) as site:
        async with writing(site):
            begun = time.monotonic()
            with pytest.raises(duly.errors.InProgress):
                await site.write("a", wait=A_MOMENT)
            assert time.monotonic() - begun < 5
        await site.write("a")
        duly.dedup(site.store, "shop", "a")
        assert site.notes() == ["a"]
