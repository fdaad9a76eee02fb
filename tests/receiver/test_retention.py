"""How long an event is remembered: never less than its sender may repeat it, or its work lasts."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import duly
from duly.webhooks import provider_named, provider_names
from tests.receiver.senders import OTHER, PAID, text
from tests.webhooks.genuine import keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import HandClock
    from tests.receiver.subjects import Case, DatabaseOf

MICROSECOND = timedelta(microseconds=1)
MONTH = timedelta(days=30)
CENTURY = timedelta(days=36_500)


@pytest.fixture(scope="module")
def app() -> Iterator[duly.Duly]:
    found = duly.Duly("memory:")
    yield found
    found.close()


@pytest.mark.parametrize("name", provider_names())
def test_a_memory_shorter_than_the_senders_retries_is_refused_with_the_figure(
    app: duly.Duly, name: str
) -> None:
    profile = provider_named(name)
    tolerance = profile.tolerance or timedelta(0)
    # A tolerance as long as the retries was chosen because they carry their first time.
    least = max(tolerance, profile.retry_horizon + tolerance * (tolerance < profile.retry_horizon))
    secret = keys(name).receiver
    for source, keep in ((f"{name}-a", least - MICROSECOND), (f"{name}-b", timedelta(seconds=1))):
        with pytest.raises(duly.errors.DulyError) as caught:
            app.source(source, provider=name, secret=secret, window=keep)
        assert f"at least {least}" in str(caught.value)
        assert profile.title is not None
        assert profile.title in str(caught.value)
    app.source(f"{name}-enough", provider=name, secret=secret, window=least)
    app.source(f"{name}-usual", provider=name, secret=secret)
    app.source(f"{name}-ever", provider=name, secret=secret, window=None)


def test_a_longer_tolerance_needs_a_longer_memory(app: duly.Duly) -> None:
    week = timedelta(days=7)
    with pytest.raises(duly.errors.DulyError, match="at least 7 days"):
        app.source("patient", provider="stripe", secret="s", window=week / 2, tolerance=week)


async def test_after_its_time_an_event_is_first_again_and_not_before(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        hub = subject.source("github", now=clock, window=MONTH)
        await hub.send(PAID, id="id_1", type="push")
        subject.records.finish(hub.name)
        clock.advance(MONTH - MICROSECOND)
        assert (await hub.send(PAID, id="id_1", type="push")).said == "duplicate"
        assert (await hub.send(PAID, id="id_2", type="push")).said == "conflict"
        clock.advance(MICROSECOND)
        assert (await hub.send(PAID, id="id_1", type="push")).said == "accepted"
        assert (await hub.send(PAID, id="id_1", type="push")).said == "duplicate"
        assert (await hub.send(PAID, id="id_2", type="push")).said == "conflict"
        assert len(hub.worked()) == (1 if woven.way == "deferred" else 2)


async def test_a_claim_that_was_pruned_is_first_again(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    clock.moment = clock.moment.replace(year=1995)  # a time of its own: prune looks at everything
    async with woven.open(place, clock) as subject:
        shop = subject.source(now=clock, window=MONTH)
        await shop.send(id="evt_1")
        subject.records.finish(shop.name)
        clock.advance(MONTH)
        await duly.aio.prune(subject.app.store)
        assert subject.records.claims(shop.name) == []
        assert (await shop.send(id="evt_1")).said == "accepted"


@pytest.mark.parametrize("state", ["ready", "leased", "dead"])
async def test_an_event_is_remembered_for_as_long_as_it_has_work(
    stored: Case, place: DatabaseOf, clock: HandClock, state: str
) -> None:
    clock.moment = clock.moment.replace(year=1995)
    async with stored.open(place, clock) as subject:
        shop = subject.source(now=clock, window=MONTH)
        await shop.send(id="evt_1")
        subject.records.settle(shop.name, state)
        clock.advance(2 * MONTH)
        await duly.aio.prune(subject.app.store)
        assert subject.records.claims(shop.name) == ["evt_1"]
        assert (await shop.send(id="evt_1")).said == "duplicate"
        assert (await shop.send(OTHER, id="evt_1")).said == "duplicate"
        assert shop.worked() == [("evt_1", "handle")]

        subject.records.finish(shop.name)
        clock.advance(2 * MONTH)
        assert (await shop.send(id="evt_1")).said == "accepted"


async def test_a_body_is_remembered_for_as_long_as_its_event_has_work(
    stored: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with stored.open(place, clock) as subject:
        hub = subject.source("github", now=clock, window=MONTH)
        await hub.send(PAID, id="id_1", type="push")
        clock.advance(2 * MONTH)
        assert (await hub.send(PAID, id="id_2", type="push")).said == "conflict"
        assert hub.worked() == [("id_1", "handle")]


async def test_the_event_of_a_body_that_is_remembered_is_a_duplicate_and_no_conflict(
    stored: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with stored.open(place, clock) as subject:
        hub = subject.source("github", now=clock, window=MONTH)
        await hub.send(PAID, id="id_1", type="push")
        clock.advance(2 * MONTH)
        assert (await hub.send(PAID, id="id_1", type="push")).said == "duplicate"
        subject.records.finish(hub.name)
        # The claim on the body began anew with that, the one on the id did not.
        assert (await hub.send(PAID, id="id_1", type="push")).said == "duplicate"
        assert len(subject.records.events(hub.name)) == 1
        clock.advance(2 * MONTH)
        assert (await hub.send(PAID, id="id_1", type="push")).said == "accepted"


async def test_a_forgotten_event_leaves_the_guard_to_a_later_one_with_the_same_body(
    stored: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with stored.open(place, clock) as subject:
        hub = subject.source("github", now=clock, window=MONTH)
        await hub.send(PAID, id="id_1", type="push")
        subject.records.finish(hub.name)
        clock.advance(MONTH)
        assert (await hub.send(PAID, id="id_2", type="push")).said == "accepted"
        subject.records.finish(hub.name)
        subject.app.forget(hub.name, "id_1")
        assert (await hub.send(PAID, id="id_3", type="push")).said == "conflict"
        subject.app.forget(hub.name, "id_2")
        assert (await hub.send(PAID, id="id_4", type="push")).said == "accepted"


async def test_a_source_that_forgets_nothing_knows_an_event_for_ever(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        shop = subject.source(now=clock, window=None)
        await shop.send(id="evt_1")
        subject.records.finish(shop.name)
        clock.advance(CENTURY)
        await duly.aio.prune(subject.app.store)
        assert (await shop.send(id="evt_1")).said == "duplicate"


async def test_a_body_that_was_refused_under_a_known_id_is_processed_under_its_own(
    stored: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with stored.open(place, clock) as subject:
        hub = subject.source("github", now=clock, window=MONTH)
        await hub.send(PAID, id="id_1", type="push")
        other = text({"action": "opened", "number": 7})
        assert (await hub.send(other, id="id_1", type="push")).said == "conflict"
        assert (await hub.send(other, id="id_2", type="push")).said == "accepted"
        assert hub.worked() == [("id_1", "handle"), ("id_2", "handle")]
