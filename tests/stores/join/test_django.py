"""Django's own books around duly's savepoints: atomic blocks, flags and on_commit."""

import threading
from typing import Any

import pytest
from django.db import connection as default_connection
from django.db import connections, transaction
from django.db.utils import IntegrityError

import duly
from tests.stores.join.django_handles import DjangoHandle, database, django_handle
from tests.stores.join.places import WRITE, Place
from tests.stores.join.ways import WAYS, Way

django_ways = pytest.mark.parametrize(
    "way", [way for way in WAYS if way.name.startswith("django")], ids=str
)


def books(user: DjangoHandle) -> tuple[Any, ...]:
    """What Django remembers of a connection's transaction."""
    found = user.connection
    return (
        found.in_atomic_block,
        list(found.savepoint_ids),
        found.needs_rollback,
        found.get_autocommit(),
        len(found.run_on_commit),
        len(found.atomic_blocks),
    )


@django_ways
async def test_the_atomic_state_is_as_it_was(way: Way, place: Place, scope: str) -> None:
    async with django_handle(place.url) as user:
        outside = books(user)
        with transaction.atomic(using=user.alias):
            inside = books(user)
            duly.dedup(user.connection, scope, "one")
            duly.dedup_many(user.connection, scope, ["two"])
            with duly.once(user.connection, scope, "three"):
                pass
            with pytest.raises(ZeroDivisionError), duly.once(user.connection, scope, "four"):
                raise ZeroDivisionError
            assert books(user) == inside
        assert books(user) == outside
    assert place.claims(scope) == ["one", "three", "two"]


@django_ways
async def test_on_commit_runs_for_the_work_that_stayed_and_for_no_other(
    way: Way, place: Place, scope: str
) -> None:
    ran: list[str] = []
    async with django_handle(place.url) as user:
        with transaction.atomic(using=user.alias):
            with duly.once(user.connection, scope, "kept"):
                transaction.on_commit(lambda: ran.append("kept"), using=user.alias)
            with pytest.raises(ZeroDivisionError), duly.once(user.connection, scope, "lost"):
                transaction.on_commit(lambda: ran.append("lost"), using=user.alias)
                raise ZeroDivisionError
            assert ran == []
        assert ran == ["kept"]


@django_ways
async def test_a_transaction_that_is_to_be_rolled_back_is_refused(
    way: Way, place: Place, scope: str
) -> None:
    async with django_handle(place.url) as user:
        with transaction.atomic(using=user.alias):
            transaction.set_rollback(True, using=user.alias)
            with pytest.raises(duly.errors.NotJoinable, match="will be rolled back"):
                duly.dedup(user.connection, scope, "evt")
            with (
                pytest.raises(duly.errors.NotJoinable, match="will be rolled back"),
                duly.once(user.connection, scope, "evt"),
            ):
                pytest.fail("the transaction has failed")
        with transaction.atomic(using=user.alias):
            assert duly.dedup(user.connection, scope, "evt").first


@django_ways
async def test_an_error_swallowed_without_a_savepoint_is_not_taken_for_success(
    way: Way, place: Place, scope: str
) -> None:
    async with django_handle(place.url) as user:
        await user.begin()
        await user.execute(WRITE, {"scope": scope, "note": f"same {scope}"})
        with (
            pytest.raises(duly.errors.UsageError, match="error was swallowed"),
            duly.once(user.connection, scope, "evt"),
            pytest.raises(IntegrityError),
            transaction.atomic(using=user.alias, savepoint=False),
        ):
            await user.execute(WRITE, {"scope": scope, "note": f"same {scope}"})
        await user.commit()
    assert (place.claims(scope), place.notes(scope)) == ([], [f"same {scope}"])


@django_ways
async def test_django_db_connection_is_joined_as_what_it_stands_for(
    way: Way, place: Place, scope: str
) -> None:
    async with django_handle(place.url):  # sets Django up
        connections.settings["default"] = connections.configure_settings(
            {"default": database(place.url)}
        )["default"]
        before = connections["default"]
        connections["default"] = connections.create_connection("default")
        try:
            with transaction.atomic():
                assert duly.dedup(default_connection, scope, "evt").first
        finally:
            connections["default"].close()
            connections["default"] = before
    assert place.claims(scope) == ["evt"]


@django_ways
async def test_a_connection_that_is_not_this_threads_is_refused(
    way: Way, place: Place, scope: str
) -> None:
    said: list[str] = []

    def elsewhere(connection: Any) -> None:
        with pytest.raises(duly.errors.NotJoinable, match="of this thread") as refused:
            duly.dedup(connection, scope, "evt")
        said.append(str(refused.value))

    async with django_handle(place.url) as user:
        with transaction.atomic(using=user.alias):
            thread = threading.Thread(target=elsewhere, args=[user.connection])
            thread.start()
            thread.join()
            elsewhere(connections.create_connection(user.alias))
    assert len(said) == 2


@django_ways
async def test_another_database_of_djangos_is_refused(way: Way, place: Place, scope: str) -> None:
    async with django_handle(place.url) as user:
        connections.settings[f"{user.alias}_other"] = {
            **connections.settings[user.alias],
            "ENGINE": "django.db.backends.dummy",
        }
        with pytest.raises(duly.errors.NotJoinable, match="PostgreSQL and SQLite"):
            duly.dedup(connections[f"{user.alias}_other"], scope, "evt")
        del connections[f"{user.alias}_other"]
        del connections.settings[f"{user.alias}_other"]
