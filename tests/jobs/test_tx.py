"""What a handler holds as ``tx``: usable inside it only, and never ended by anybody but duly."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

import duly
from duly.core.onestep import finish
from duly.jobs.handlers import handler_of
from duly.jobs.invoke import HandlerFailed, run_in_transaction
from duly.jobs.registry import JobRegistry, Registries
from duly.jobs.tx import ENDINGS, AsyncTx, Tx, checked_statement, refuse_ending
from duly.outbox.registry import OutboxRegistry
from tests.support.growth import LINEAR, growth
from tests.support.inboxes import done, found
from tests.support.openings import WRITE, Colour, Site, a_site
from tests.webhooks.genuine import keys

BODY = b'{"type": "paid"}'
SECRET = keys("standard-webhooks").receiver


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    kind = "own_postgres_url" if request.param == "postgres" else "sqlite_url"
    address: str = request.getfixturevalue(kind)
    return address


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> Colour:
    chosen: Colour = request.param
    return chosen


@asynccontextmanager
async def handling(url: str, colour: Colour) -> AsyncIterator[tuple[Site, Callable[..., Any]]]:
    """A site, and a function that runs one handler in a transaction of its own."""
    async with a_site(url, colour) as site:

        async def handle(call: Callable[..., Any]) -> None:
            async with site.opened() as opened:
                await run_in_transaction(
                    [handler_of(call, "handler")],
                    "the event",
                    opened,
                    Registries(JobRegistry(), OutboxRegistry()),
                )

        yield site, handle


def written(colour: Colour, then: Callable[[Any], Any] | None = None) -> Callable[..., Any]:
    """A handler that writes a note and then does something more."""

    def blocking(tx: Tx) -> None:
        tx.execute(WRITE, note="a")
        if then is not None:
            then(tx)

    async def awaited(tx: AsyncTx) -> None:
        await tx.execute(WRITE, note="a")
        if then is not None:
            returned = then(tx)
            if hasattr(returned, "__await__"):
                await returned

    return blocking if colour == "sync" else awaited


async def test_what_a_handler_writes_is_committed_with_its_transaction(
    url: str, colour: Colour
) -> None:
    async with handling(url, colour) as (site, handle):
        await handle(written(colour))
        assert site.notes() == ["a"]


async def test_a_handler_that_raises_leaves_nothing(url: str, colour: Colour) -> None:
    def fail(_: object) -> None:
        raise KeyError("the handler's own")

    async with handling(url, colour) as (site, handle):
        with pytest.raises(HandlerFailed) as caught:
            await handle(written(colour, fail))
        assert isinstance(caught.value.__cause__, KeyError)
        assert site.notes() == []


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_handler_cannot_end_its_transaction(url: str, colour: Colour, ending: str) -> None:
    async with handling(url, colour) as (site, handle):
        with pytest.raises(HandlerFailed) as caught:
            await handle(written(colour, lambda tx: getattr(tx.connection, ending)()))
        assert isinstance(caught.value.__cause__, duly.errors.UsageError)
        assert "together with the end of its event or job" in str(caught.value.__cause__)
        assert site.notes() == []
        await handle(written(colour))
        assert site.notes() == ["a"]


@pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK"])
async def test_a_handler_that_ends_its_transaction_in_sql_is_told(
    url: str, colour: Colour, statement: str
) -> None:
    async with handling(url, colour) as (site, handle):
        with pytest.raises((HandlerFailed, duly.errors.UsageError)):
            await handle(written(colour, lambda tx: tx.execute(statement)))
        await site.write("next")


async def test_a_handler_that_swallows_an_error_of_the_database_is_not_taken_for_done(
    own_postgres_url: str, colour: Colour
) -> None:
    def swallow(tx: Any) -> Any:
        async def later() -> None:
            with pytest.raises(Exception, match="unique"):
                await tx.execute(WRITE, note="a")

        if colour == "async":
            return later()
        with pytest.raises(Exception, match="unique"):
            tx.execute(WRITE, note="a")
        return None

    async with handling(own_postgres_url, colour) as (site, handle):
        with pytest.raises((HandlerFailed, duly.errors.UsageError)):
            await handle(written(colour, swallow))
        assert site.notes() == []
        await handle(written(colour))


@pytest.fixture
def shop(own_postgres_url: str) -> Iterator[duly.Duly]:
    """An application whose inline handler swallows what the database says the first time."""
    app = duly.Duly(own_postgres_url)
    done(app.store, "CREATE TABLE notes (note text NOT NULL UNIQUE)")
    app.source("shop", provider="standard-webhooks", secret=SECRET, inline=True)
    tries: list[str] = []

    @app.on("shop", name="handle")
    def handle(event: duly.Event, tx: Tx) -> None:
        tries.append(event.id)
        tx.execute(WRITE, note=event.id)
        if len(tries) == 1:
            with pytest.raises(Exception, match="unique"):
                tx.execute(WRITE, note=event.id)

    yield app
    app.close()


def test_an_inline_delivery_that_was_rolled_back_is_never_acknowledged(shop: duly.Duly) -> None:
    signed = duly.sign("standard-webhooks", BODY, SECRET, id="evt_1")
    first = shop.receive("shop", signed.headers, BODY)
    assert found(shop.store, "SELECT note FROM notes") == []
    assert first.status in (500, 503), "acknowledged, and nothing of it is in the database"
    assert shop.receive("shop", signed.headers, BODY).status == 200
    assert found(shop.store, "SELECT note FROM notes") == [("evt_1",)]
    assert found(shop.store, "SELECT event_id FROM duly_events") == [("evt_1",)]


async def test_a_transaction_that_is_over_is_not_used_again(url: str, colour: Colour) -> None:
    kept: list[Any] = []
    async with handling(url, colour) as (_, handle):
        await handle(written(colour, kept.append))
        [tx] = kept
        uses: list[Callable[[], Any]] = [
            lambda: tx.connection,
            lambda: tx.session,
            lambda: tx.execute("SELECT 1"),
            lambda: tx.newer("order", 1),
        ]
        for use in uses:
            with pytest.raises(duly.errors.UsageError, match="use tx only inside its handler"):
                await settled(use())


async def settled(returned: Any) -> Any:
    return await returned if hasattr(returned, "__await__") else returned


async def test_without_an_orm_there_is_no_session_of_its(url: str, colour: Colour) -> None:
    async with handling(url, colour) as (_, handle):
        with pytest.raises(HandlerFailed) as caught:
            await handle(written(colour, lambda tx: tx.session))
        assert "give the app begin=" in str(caught.value.__cause__)


async def test_versions_are_recorded_with_the_handlers_work_or_not_at_all(
    url: str, colour: Colour
) -> None:
    answers: list[bool] = []

    def blocking(tx: Tx) -> None:
        answers.extend(tx.newer("order", version) for version in (2, 1, 3))
        if len(answers) == 3:
            raise RuntimeError

    async def awaited(tx: AsyncTx) -> None:
        answers.extend([await tx.newer("order", version) for version in (2, 1, 3)])
        if len(answers) == 3:
            raise RuntimeError

    async with handling(url, colour) as (site, handle):
        call = blocking if colour == "sync" else awaited
        with pytest.raises(HandlerFailed):
            await handle(call)
        await handle(call)
        assert answers == [True, False, True] * 2
        assert len(found(site.store, "SELECT scope FROM duly_versions")) == 1


class Target:
    """Something with the calls that end a transaction."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    def commit(self) -> None:
        self.ended.append("commit")

    def rollback(self) -> None:
        self.ended.append("rollback")

    def close(self) -> None:
        self.ended.append("close")


def test_the_calls_that_end_a_transaction_are_back_afterwards_whatever_happened() -> None:
    target = Target()
    with pytest.raises(KeyError), refuse_ending(target):
        for name in ENDINGS:
            with pytest.raises(duly.errors.UsageError, match="ended by duly"):
                getattr(target, name)()
        raise KeyError
    for name in ENDINGS:
        getattr(target, name)()
    assert target.ended == list(ENDINGS)
    assert vars(target) == {"ended": target.ended}


@pytest.mark.parametrize(
    "statement",
    ["COMMIT", " \n-- done\ncommit", "/* a * b */ /**/ END", "-- x\n/* y */rollback", "Begin "],
)
def test_a_statement_that_ends_the_transaction_is_refused_behind_any_comment(
    statement: str,
) -> None:
    with pytest.raises(duly.errors.UsageError, match="ended by duly"):
        checked_statement(statement)


@pytest.mark.parametrize(
    "statement",
    ["--commit", "/* begin */ SELECT 1", "--x\n-- rollback\nSELECT 1", "/*commit", "ROLLBACK TO a"],
)
def test_a_comment_about_the_end_of_a_transaction_ends_none(statement: str) -> None:
    assert checked_statement(statement) == statement


def test_no_comment_makes_the_look_at_a_statement_grow_faster_than_itself() -> None:
    for unit in (" ", "--", "-- \n", "/*", "/* * */", "*"):
        begun = "/*" if unit == "*" else ""
        made = partial(repeated, begun, unit)
        assert growth(made, checked_statement, 80_000) < LINEAR


def repeated(begun: str, unit: str, size: int) -> str:
    return begun + unit * (size // len(unit)) + "SELECT 1"


def test_what_takes_no_attributes_is_left_alone() -> None:
    for target in (None, object(), 7):
        with refuse_ending(target):
            pass


def test_a_blocking_transaction_never_waits(sqlite_url: str) -> None:
    with duly.store(sqlite_url) as store:
        done(store, "CREATE TABLE notes (note text NOT NULL UNIQUE)")
        site = Site(store, "sync")

        async def handle() -> None:
            async with site.opened() as opened:
                handlers = [handler_of(written("sync"), "handler")]
                await run_in_transaction(
                    handlers, "event", opened, Registries(JobRegistry(), OutboxRegistry())
                )

        finish(handle())
        assert site.notes() == ["a"]
