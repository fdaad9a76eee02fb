"""Django's connections on duly's threads: as many as needed, as long as CONN_MAX_AGE says."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from tests.begin.conftest import opened
from tests.begin.test_promises import told
from tests.begin.worlds import WORLDS, Hand, World, post, signed
from tests.processes.leading import until

if TYPE_CHECKING:
    import duly
    from tests.joining.places import Place

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
