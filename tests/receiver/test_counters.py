"""What is counted and noted: apart from every delivery's transaction, exact at the end, bounded."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest

from duly.receiver import metrics
from tests.receiver.senders import OTHER, PAID, text
from tests.receiver.subjects import Case
from tests.support.processes import until
from tests.support.processes.leading import PATIENCE
from tests.support.watching import waits

if TYPE_CHECKING:
    from tests.conftest import HandClock
    from tests.receiver.subjects import DatabaseOf, Subject

COPIES = 60
# Time for an end that must not come yet.
MOMENT = 0.15


@pytest.fixture
def at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written before the end."""
    monkeypatch.setattr(metrics, "PAUSE", 3600.0)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted is written a moment later."""
    monkeypatch.setattr(metrics, "PAUSE", 0.01)


async def counted(subject: Subject, scope: str, wanted: dict[str, int]) -> None:
    """Wait until these are the sums; the event loop has them to write, so it must go on."""
    async with asyncio.timeout(PATIENCE):
        while subject.records.counters(scope) != wanted:  # noqa: ASYNC110  # it is another's table
            await asyncio.sleep(0.005)


@pytest.mark.usefixtures("at_the_end")
async def test_what_was_counted_is_exact_after_the_end_and_not_written_before(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        hub = subject.source("github", now=clock, handled="push")
        await hub.send_copies(7, PAID, id="id_1", type="push")
        await hub.send(OTHER, id="id_1", type="push")
        await hub.send(PAID, id="id_2", type="push")
        await hub.send(text([1]), id="id_3", type="issues")
        await hub.send(PAID, id="id_4", type="push", seed="another")
        shop = subject.source(now=clock)
        for body in (PAID, OTHER):
            await shop.send(body, id="evt_1")
        assert subject.records.counters(hub.name) == {}
        assert sum(subject.records.deliveries(hub.name).values()) == 4

        await subject.flush()
        await subject.flush()  # what was written is not written again
        assert subject.records.counters(hub.name) == {
            "accepted": 1, "duplicate": 6, "conflict": 2, "ignored": 1, "BAD_SIGNATURE": 1,
        }  # fmt: skip
        assert subject.records.counters(shop.name) == {"accepted": 1, "body_differs": 1}


@pytest.mark.usefixtures("at_once")
async def test_what_was_counted_is_written_without_being_asked_for(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        shop = subject.source(now=clock)
        for _ in range(2):
            await shop.send(id="evt_1")

        await counted(subject, shop.name, {"accepted": 1, "duplicate": 1})


@pytest.mark.usefixtures("at_once")
async def test_what_was_refused_is_written_too_if_nothing_else_ever_comes(
    stored: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with stored.open(place, clock) as subject:
        shop = subject.source(now=clock)
        await shop.send(seed="another")

        await counted(subject, shop.name, {"BAD_SIGNATURE": 1})


@pytest.mark.usefixtures("at_the_end")
async def test_the_notes_of_a_storm_of_copies_are_bounded_and_its_count_is_not(
    stored: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with stored.open(place, clock) as subject:
        shop = subject.source(now=clock)
        for _ in range(2):
            await shop.send_copies(COPIES, id="evt_1")
            await subject.flush()
        await shop.send(id="evt_2")
        await shop.send(id="evt_2")
        await subject.flush()

        noted = subject.records.deliveries(shop.name)
        assert noted["evt_1", "accepted"] == 1
        assert 20 <= noted["evt_1", "duplicate"] <= 50
        assert noted["evt_2", "duplicate"] == 1
        assert subject.records.counters(shop.name) == {"accepted": 2, "duplicate": 2 * COPIES}


POSTGRES = [
    Case("postgres", server, way) for server in ("asgi", "wsgi") for way in ("deferred", "inline")
]
QUEUED = [case for case in POSTGRES if case.way == "deferred"]


@pytest.mark.parametrize("case", POSTGRES, ids=lambda case: case.name)
@pytest.mark.usefixtures("at_the_end")
async def test_a_counter_that_somebody_holds_delays_no_delivery(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with case.open(place, clock) as subject:
        shop = subject.source(now=clock)
        with closing(psycopg.connect(place.looked_at)) as other:
            other.execute("LOCK TABLE duly_counters IN ACCESS EXCLUSIVE MODE")
            for said in ("accepted", "duplicate"):
                assert (await shop.send(id="evt_1")).said == said


@pytest.mark.parametrize("case", QUEUED, ids=lambda case: case.name)
@pytest.mark.usefixtures("at_the_end")
async def test_what_was_written_is_not_written_again_because_nobody_says_who_works(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with case.open(place, clock) as subject:
        shop = subject.source(now=clock)
        with closing(psycopg.connect(place.looked_at)) as other:
            await shop.send(id="evt_1")
            other.execute("LOCK TABLE duly_workers IN ACCESS EXCLUSIVE MODE")
            await subject.flush()
        await shop.send(id="evt_2")
        await subject.flush()
        assert subject.records.counters(shop.name) == {"accepted": 2}


@pytest.mark.parametrize("case", POSTGRES, ids=lambda case: case.name)
@pytest.mark.usefixtures("at_once")
async def test_closing_while_the_counters_are_being_written_loses_none(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with case.open(place, clock) as subject:
        shop = subject.source(now=clock)
        with closing(psycopg.connect(place.looked_at)) as other:
            other.execute("LOCK TABLE duly_counters IN ACCESS EXCLUSIVE MODE")
            await shop.send(id="evt_1")
            await asyncio.to_thread(until, lambda: waits(place.looked_at, "counters"))
            ending = asyncio.ensure_future(subject.flush())
            done, _ = await asyncio.wait([ending], timeout=MOMENT)
            assert not done, "it ended while the counters were still being written"
        await ending
        assert subject.records.counters(shop.name) == {"accepted": 1}
