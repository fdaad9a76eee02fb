"""Django's connections on duly's threads: as many as needed, as long as CONN_MAX_AGE says."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections

import duly
from duly.worker.settings import WorkerSettings
from tests.stores.orm.conftest import opened
from tests.stores.orm.test_promises import told
from tests.stores.orm.worlds import WORLDS, Hand, World, post, signed
from tests.support.processes.leading import until
from tests.worker.subjects import seen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.stores.join.places import Place

pytestmark = pytest.mark.slow

on_postgres = pytest.mark.parametrize(
    "world", [world for world in WORLDS if world.name == "django-postgres"], ids=str
)


def named(scope: str) -> dict[str, dict[str, str]]:
    """Django's own connections under a name that PostgreSQL shows."""
    return {"OPTIONS": {"application_name": scope[-40:]}}


def alive(place: Place, scope: str) -> int:
    """How many of the connections under that name there are."""
    [(count,)] = place.rows(
        f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{scope[-40:]}'"
    )
    return int(count)


def ended(place: Place, scope: str) -> bool:
    """Whether they end: a server takes a moment to see that its client has gone."""
    return until(lambda: True if alive(place, scope) == 0 else None)


@on_postgres
@pytest.mark.parametrize("server", ["asgi", "wsgi"])
async def test_without_an_age_no_connection_outlives_its_delivery(
    world: World, server: str, place: Place, scope: str
) -> None:
    seen: list[int] = []

    async def look(event: duly.Event, hand: Hand) -> None:
        seen.append(alive(place, scope))

    async with opened(world, place.url, scope, CONN_MAX_AGE=0, **named(scope)) as app:
        world.handle(app, scope, look)
        sent = [signed(f"{scope}-{number}", b'{"n":%d}' % number) for number in range(12)]
        answers = await asyncio.gather(*(post(app, scope, one, server) for one in sent))
        assert ended(place, scope)

    assert {told(answer) for answer in answers} == {(200, "accepted")}
    assert min(seen) >= 1


@on_postgres
async def test_with_an_age_connections_are_used_again_and_end_with_their_threads(
    world: World, place: Place, scope: str
) -> None:
    backends: set[tuple[int, int]] = set()

    async def remember(event: duly.Event, hand: Hand) -> None:
        [row] = await hand.execute("SELECT pg_backend_pid() AS pid")
        backends.add((threading.get_ident(), row["pid"]))

    async with opened(world, place.url, scope, CONN_MAX_AGE=None, **named(scope)) as app:
        world.handle(app, scope, remember)
        for number in range(24):
            sent = signed(f"{scope}-{number}", b'{"n":%d}' % number)
            assert told(await post(app, scope, sent, "asgi")) == (200, "accepted")
        threads = {thread for thread, _ in backends}
        # One connection for each thread, however many deliveries.
        assert len(backends) == len(threads) <= 8
        assert alive(place, scope) == len(backends)
    assert ended(place, scope)


# Without an age, which is Django's default, and with one as Django's documentation advises.
AGES: list[dict[str, Any]] = [
    {"CONN_MAX_AGE": 0},
    {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True},
]


@asynccontextmanager
async def one_thread_at_work(app: duly.Duly, queue: str) -> AsyncIterator[None]:
    """A worker that runs its jobs one after the other, all on the same thread."""
    worker = app.process.worker(WorkerSettings(queues={queue: 1}))
    running = asyncio.create_task(worker.run("stopped"))
    try:
        yield
    finally:
        worker.stop()
        await running


@on_postgres
@pytest.mark.parametrize("age", AGES, ids=["without an age", "with an age"])
async def test_a_job_without_tx_does_not_meet_a_connection_that_broke_before_it(
    world: World, age: dict[str, Any], place: Place, scope: str
) -> None:
    threads: list[int] = []

    def ended_jobs() -> list[tuple[Any, ...]]:
        return place.rows(
            f"SELECT outcome, attempts FROM duly_history WHERE name = '{scope}' UNION ALL "
            f"SELECT state, attempts FROM duly_jobs WHERE name = '{scope}' AND state = 'dead'"
        )

    async with world.begin(place.url, **age, **named(scope)) as begin:
        app = duly.Duly(begin=begin)

        @app.job(name=scope, queue=scope, attempts=1)
        def look(job: duly.Job) -> None:
            threads.append(threading.get_ident())
            with connections[begin.alias].cursor() as cursor:
                cursor.execute("SELECT 1")

        async with one_thread_at_work(app, scope):
            await app.aio.enqueue(look)
            await seen(lambda: len(ended_jobs()) == 1)
            # As a restart of the server does.
            place.rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                f"WHERE application_name = '{scope[-40:]}'"
            )
            assert ended(place, scope)
            await app.aio.enqueue(look)
            await seen(lambda: len(ended_jobs()) == 2)
            assert ended_jobs() == [("done", 1), ("done", 1)]
        await app.aclose()
        app.close()
    assert len(threads) == 2
    assert len(set(threads)) == 1
    assert ended(place, scope)
