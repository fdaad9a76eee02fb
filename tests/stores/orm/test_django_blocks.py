"""An open ``atomic`` of the caller's: joined or refused, and never closed or rolled back."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async
from django.db import connections, transaction

import duly
from tests.stores.join.django_handles import spelled
from tests.stores.orm.conftest import opened
from tests.stores.orm.test_promises import told
from tests.stores.orm.worlds import WORLDS, WRITE, Hand, World, django_alias, made, post, signed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.stores.join.places import Place

pytestmark = pytest.mark.slow

in_django = pytest.mark.parametrize("world", [one for one in WORLDS if one.is_django], ids=str)


class RolledBack(Exception):
    """Ends a block of the caller's."""


def alias_of(app: duly.Duly) -> str:
    """The alias that an app's handlers work on."""
    given: Any = app.process.given_begin
    return str(given.alias)


def write(alias: str, scope: str, note: str) -> None:
    """A row of the caller's own, through Django."""
    with connections[alias].cursor() as cursor:
        cursor.execute(*spelled(WRITE, {"scope": scope, "note": note}))


def jobs(place: Place, name: str) -> int:
    """How many jobs an outsider sees."""
    [(count,)] = place.rows(f"SELECT count(*) FROM duly_jobs WHERE name = '{name}'")
    return int(count)


def messages(place: Place, name: str) -> int:
    """How many staged messages an outsider sees."""
    [(count,)] = place.rows(f"SELECT count(*) FROM duly_outbox WHERE destination LIKE '%{name}%'")
    return int(count)


def nothing(job: duly.Job) -> None:
    """What the jobs of these tests do."""


def with_job(app: duly.Duly, name: str) -> None:
    app.job(name=name, queue=name)(nothing)


VERBS: dict[str, Callable[[duly.Duly, str], object]] = {
    "enqueue": lambda app, name: app.enqueue(name),
    "enqueue_many": lambda app, name: app.enqueue_many(name, [1]),
    "enqueue with a key": lambda app, name: app.enqueue(name, key=name),
}


def test_the_first_call_on_a_new_sqlite_file_may_come_after_a_write_in_the_block(
    tmp_path: Path, scope: str
) -> None:
    """`manage.py migrate` made the tables, and no connection of duly's has opened the file yet."""
    file = tmp_path / "shop.db"
    with closing(sqlite3.connect(file)) as connection, connection:
        duly.migrate(connection)
        connection.execute("CREATE TABLE orders (id INTEGER)")
    with django_alias(f"sqlite:///{file}") as alias:
        app = duly.Duly(begin=duly.django.database(alias))
        with_job(app, scope)
        with transaction.atomic(using=alias):
            with connections[alias].cursor() as cursor:
                cursor.execute("INSERT INTO orders VALUES (1)")
            app.enqueue(scope)
        assert app.work(queues=[scope]).done == 1
        app.close()


@in_django
async def test_a_transaction_of_the_app_is_committed_with_the_block_around_it(
    world: World, place: Place, scope: str
) -> None:
    async with opened(world, place.url, scope) as app:
        alias = alias_of(app)
        with transaction.atomic(using=alias):
            write(alias, scope, f"before {scope}")
            driver = connections[alias].connection
            with app.transaction() as tx:
                tx.execute(WRITE, scope=scope, note=f"inside {scope}")
            assert connections[alias].connection is driver
            write(alias, scope, f"after {scope}")
            assert place.notes(scope) == []
    assert place.notes(scope) == sorted(f"{when} {scope}" for when in ("before", "inside", "after"))


@in_django
async def test_a_transaction_of_the_app_is_rolled_back_with_the_block_around_it(
    world: World, place: Place, scope: str
) -> None:
    async with opened(world, place.url, scope) as app:
        alias = alias_of(app)
        with pytest.raises(RolledBack), transaction.atomic(using=alias):
            with app.transaction() as tx:
                tx.execute(WRITE, scope=scope, note=scope)
            raise RolledBack
    assert place.notes(scope) == []


@in_django
async def test_an_error_in_a_transaction_of_the_app_leaves_the_block_around_it_whole(
    world: World, place: Place, scope: str
) -> None:
    async with opened(world, place.url, scope) as app:
        alias = alias_of(app)
        with transaction.atomic(using=alias):
            write(alias, scope, f"kept {scope}")
            with pytest.raises(RolledBack), app.transaction() as tx:
                tx.execute(WRITE, scope=scope, note=f"lost {scope}")
                raise RolledBack
    assert place.notes(scope) == [f"kept {scope}"]


@in_django
@pytest.mark.parametrize("verb", [*VERBS.values()], ids=[*VERBS])
async def test_a_job_is_enqueued_in_the_block_that_is_open_around_the_call(
    world: World, place: Place, scope: str, verb: Callable[[duly.Duly, str], object]
) -> None:
    async with opened(world, place.url, scope) as app:
        with_job(app, scope)
        alias = alias_of(app)
        with pytest.raises(RolledBack), transaction.atomic(using=alias):
            write(alias, scope, scope)
            verb(app, scope)
            raise RolledBack
        assert (jobs(place, scope), place.notes(scope)) == (0, [])
        with transaction.atomic(using=alias):
            write(alias, scope, scope)
            verb(app, scope)
            assert jobs(place, scope) == 0
        assert (jobs(place, scope), place.notes(scope)) == (1, [scope])


@in_django
async def test_a_message_is_staged_in_the_block_that_is_open_around_the_call(
    world: World, place: Place, scope: str
) -> None:
    async with opened(world, place.url, scope) as app:
        alias, url = alias_of(app), f"https://{scope}.example/"
        with pytest.raises(RolledBack), transaction.atomic(using=alias):
            app.send(url, json={})
            raise RolledBack
        assert messages(place, scope) == 0
        with transaction.atomic(using=alias):
            write(alias, scope, scope)
            app.send(url, json={})
            assert messages(place, scope) == 0
        assert messages(place, scope) == 1


@in_django
async def test_an_inner_block_that_is_rolled_back_takes_its_job_with_it(
    world: World, place: Place, scope: str
) -> None:
    async with opened(world, place.url, scope) as app:
        with_job(app, scope)
        alias = alias_of(app)
        with transaction.atomic(using=alias):
            write(alias, scope, scope)
            with pytest.raises(RolledBack), transaction.atomic(using=alias):
                app.enqueue(scope)
                raise RolledBack
    assert (jobs(place, scope), place.notes(scope)) == (0, [scope])


@in_django
async def test_what_on_commit_enqueues_is_committed_at_once(
    world: World, place: Place, scope: str
) -> None:
    async with opened(world, place.url, scope) as app:
        with_job(app, scope)
        alias, seen = alias_of(app), []

        def enqueue() -> None:
            app.enqueue(scope)
            seen.append(jobs(place, scope))

        with transaction.atomic(using=alias):
            transaction.on_commit(enqueue, using=alias)
    assert seen == [1]


@in_django
async def test_an_async_view_joins_through_sync_to_async(
    world: World, place: Place, scope: str
) -> None:
    async with opened(world, place.url, scope) as app:
        with_job(app, scope)
        alias = alias_of(app)

        def buy(*, fails: bool) -> None:
            try:
                with transaction.atomic(using=alias):
                    app.enqueue(scope)
                    if fails:
                        raise RolledBack
            finally:
                connections[alias].close()

        with pytest.raises(RolledBack):
            await sync_to_async(buy)(fails=True)
        assert jobs(place, scope) == 0
        await sync_to_async(buy)(fails=False)
        assert jobs(place, scope) == 1


@in_django
async def test_an_awaited_verb_does_not_commit_beside_an_open_block(
    world: World, place: Place, scope: str
) -> None:
    async with opened(world, place.url, scope) as app:
        with_job(app, scope)
        with transaction.atomic(using=alias_of(app)):
            with pytest.raises(
                duly.errors.SyncAsyncMismatch, match=r"app\.enqueue\(…\), which joins it"
            ):
                await app.aio.enqueue(scope)
            with pytest.raises(
                duly.errors.SyncAsyncMismatch, match=r"app\.send\(…\), which joins it"
            ):
                await app.aio.send(f"https://{scope}.example/")
    assert (jobs(place, scope), messages(place, scope)) == (0, 0)


@in_django
async def test_a_block_on_another_database_than_the_apps_is_refused_and_stays_whole(
    world: World, place: Place, scope: str, sqlite_url: str
) -> None:
    with django_alias(sqlite_url + ".other") as alias:
        app = duly.Duly(place.url, begin=duly.django.database(alias))
        try:
            with_job(app, scope)
            with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
                cursor.execute("CREATE TABLE kept (id text)")
                with pytest.raises(duly.errors.UnsafeStore, match="different databases"):
                    app.enqueue(scope)
                with (
                    pytest.raises(duly.errors.UnsafeStore, match="different databases"),
                    app.transaction(),
                ):
                    pytest.fail("it leads elsewhere")
                cursor.execute("SELECT count(*) FROM kept")
                assert cursor.fetchone() == (0,)
        finally:
            app.close()
    assert jobs(place, scope) == 0


@in_django
async def test_a_delivery_inside_a_block_is_refused_and_the_block_goes_on(
    world: World, place: Place, scope: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def record(event: duly.Event, hand: Hand) -> None:
        await hand.write(f"{event.id} {scope}")

    async with opened(world, place.url, scope) as app:
        world.handle(app, scope, record)
        alias = alias_of(app)
        with caplog.at_level(logging.ERROR, "duly"), transaction.atomic(using=alias):
            driver = connections[alias].connection
            answer = await post(app, scope, signed(f"{scope}-1"), "wsgi")
            assert (answer.status_code, answer.json()["error"]) == (503, "STORE_UNAVAILABLE")
            assert connections[alias].connection is driver
            write(alias, scope, f"kept {scope}")
        assert f"@transaction.non_atomic_requests(using='{alias}')" in caplog.text
        assert place.notes(scope) == [f"kept {scope}"]
        assert told(await post(app, scope, signed(f"{scope}-1"), "wsgi")) == (200, "accepted")
    assert place.notes(scope) == sorted([f"kept {scope}", f"{scope}-1 {scope}"])


@in_django
async def test_a_block_on_another_alias_is_left_alone(
    world: World, place: Place, scope: str
) -> None:
    async def handle(event: duly.Event, hand: Hand) -> None:
        """There is a transaction; that is enough."""

    async with opened(world, place.url, scope) as app:
        world.handle(app, scope, handle)
        with django_alias(place.url, CONN_MAX_AGE=0) as other, transaction.atomic(using=other):
            driver = connections[other].connection
            with app.transaction() as tx:
                tx.execute("SELECT 1 AS one")
            assert told(await post(app, scope, signed(scope), "wsgi")) == (200, "accepted")
            assert connections[other].connection is driver
            write(other, scope, f"kept {scope}")
    assert place.notes(scope) == [f"kept {scope}"]


@in_django
async def test_a_transaction_that_was_begun_by_hand_is_left_alone(
    world: World, place: Place, scope: str
) -> None:
    async with opened(world, place.url, scope) as app:
        alias = alias_of(app)
        transaction.set_autocommit(False, using=alias)
        try:
            write(alias, scope, scope)
            with pytest.raises(duly.errors.UsageError, match="AUTOCOMMIT off"), app.transaction():
                pytest.fail("its commit would not be duly's")
            transaction.commit(using=alias)
        finally:
            transaction.set_autocommit(True, using=alias)
    assert place.notes(scope) == [scope]


@in_django
@pytest.mark.parametrize("raises", [False, True], ids=["returns", "raises"])
async def test_a_block_that_a_handler_leaves_open_is_not_around_the_next_delivery(
    world: World, place: Place, scope: str, *, raises: bool
) -> None:
    """The thread's connection is used again; everything after it was refused until a restart."""
    left: list[Any] = []
    with django_alias(place.url, CONN_MAX_AGE=None) as alias:
        app = made(duly.django.database(alias), scope)

        async def leave(event: duly.Event, hand: Hand) -> None:
            await hand.write(event.id)
            if b"leave" in event.body:
                left.append(transaction.atomic(using=alias))
                left[-1].__enter__()
                if raises:
                    raise ValueError

        world.handle(app, scope, leave)
        refused = await post(app, scope, signed(f"{scope}-1", b'{"leave":1}'), "wsgi")
        later = await post(app, scope, signed(f"{scope}-2"), "wsgi")
        app.close()

    assert (told(refused), told(later)) == ((500, "HANDLER_FAILED"), (200, "accepted"))
    assert place.notes(scope) == place.claims(scope) == [f"{scope}-2"]


@in_django
def test_what_is_enqueued_in_a_block_of_the_callers_wakes_nothing_before_its_commit(
    world: World, place: Place, scope: str
) -> None:
    rung: list[str] = []
    with django_alias(place.url) as alias:
        app = duly.Duly(begin=duly.django.database(alias))
        with_job(app, scope)
        app.wakeup.add_listener("jobs", lambda: rung.append("jobs"))
        with transaction.atomic(using=alias):
            with app.transaction() as tx:
                tx.enqueue(scope)
            app.enqueue(scope)
            assert rung == []
        assert jobs(place, scope) == 2
        app.close()


@contextmanager
def without_autocommit(alias: str) -> Iterator[None]:
    """A transaction that the caller opened by hand."""
    transaction.set_autocommit(False, using=alias)
    try:
        yield
    finally:
        transaction.rollback(using=alias)
        transaction.set_autocommit(True, using=alias)


@in_django
@pytest.mark.parametrize("verb", [*VERBS.values()], ids=[*VERBS])
async def test_a_job_is_refused_in_a_transaction_that_was_opened_by_hand(
    world: World, place: Place, scope: str, verb: Callable[[duly.Duly, str], object]
) -> None:
    """It would be committed on a connection of duly's even if the caller rolls back."""
    async with opened(world, place.url, scope) as app:
        with_job(app, scope)
        with (
            without_autocommit(alias_of(app)),
            pytest.raises(duly.errors.UsageError, match=r"set_autocommit.*transaction\.atomic"),
        ):
            verb(app, scope)
        assert jobs(place, scope) == 0


ADMIN_VERBS: dict[str, Callable[[duly.Duly, str], object]] = {
    "forget": lambda app, name: app.forget(name, "evt_1"),
    "replay a job": lambda app, _: app.jobs.replay(all=True),
    "discard a job": lambda app, _: app.jobs.discard(str(uuid4())),
    "replay a message": lambda app, _: app.outbox.replay(all=True),
    "discard a message": lambda app, _: app.outbox.discard(str(uuid4())),
}


@in_django
@pytest.mark.parametrize("verb", [*ADMIN_VERBS.values()], ids=[*ADMIN_VERBS])
async def test_what_commits_by_itself_is_refused_inside_a_block(
    world: World, place: Place, scope: str, verb: Callable[[duly.Duly, str], object]
) -> None:
    """The caller would think that it is undone with the block."""
    async with opened(world, place.url, scope) as app:
        with (
            transaction.atomic(using=alias_of(app)),
            pytest.raises(duly.errors.UsageError, match=r"outside.*atomic"),
        ):
            verb(app, scope)
