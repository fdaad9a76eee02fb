"""Forgetting on purpose: the sender's next delivery is processed, and no work is ever doubled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import duly
from tests.receiver.senders import OTHER, PAID, text
from tests.receiver.test_too_old import KEEP, SECOND, created

if TYPE_CHECKING:
    from tests.conftest import HandClock
    from tests.receiver.subjects import Case, DatabaseOf


async def test_after_a_forget_the_redelivery_is_processed(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        shop = subject.source(now=clock)
        subject.on(shop.name, "invoice.*", "also")
        subject.on(shop.name, "order.*", "not this one")
        await shop.send(id="evt_1")
        subject.records.finish(shop.name)
        forgotten = await subject.forget(shop.name, "evt_1")

        assert (forgotten.event_id, forgotten.type) == ("evt_1", "invoice.paid")
        assert sorted(forgotten.handlers) == ["also", "handle"]
        assert forgotten.discarded == 0
        assert subject.records.claims(shop.name) == []
        assert [event.flags for event in subject.records.events(shop.name)] == ["forgotten"]
        assert (await shop.send(id="evt_1")).said == "accepted"
        assert (await shop.send(id="evt_1")).said == "duplicate"
        runs = 1 if woven.way == "deferred" else 2
        assert shop.worked() == sorted([("evt_1", "also"), ("evt_1", "handle")] * runs)


@pytest.mark.parametrize("state", ["ready", "leased"])
async def test_an_event_whose_work_is_not_over_is_not_forgotten(
    deferred: Case, place: DatabaseOf, clock: HandClock, state: str
) -> None:
    async with deferred.open(place, clock) as subject:
        shop = subject.source(now=clock)
        await shop.send(id="evt_1")
        subject.records.settle(shop.name, state)
        before = subject.records.everything()
        with pytest.raises(duly.errors.DulyError, match=r"evt_1.*handle"):
            await subject.forget(shop.name, "evt_1")

        assert subject.records.everything() == before
        assert [event.flags for event in subject.records.events(shop.name)] == [""]
        assert (await shop.send(id="evt_1")).said == "duplicate"


async def test_dead_jobs_are_discarded_with_their_event(
    deferred: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with deferred.open(place, clock) as subject:
        shop = subject.source(now=clock)
        subject.on(shop.name, "*", "also")
        for id in ("evt_1", "evt_2"):
            await shop.send(id=id)
        subject.records.settle(shop.name, "dead")
        forgotten = await subject.forget(shop.name, "evt_1")

        assert forgotten.discarded == 2
        assert shop.worked() == [("evt_2", "also"), ("evt_2", "handle")]
        assert (await shop.send(id="evt_1")).said == "accepted"
        assert (await shop.send(id="evt_2")).said == "duplicate"
        assert len(shop.worked()) == 4


async def test_one_job_that_is_not_dead_keeps_the_whole_event(
    stored: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with stored.open(place, clock) as subject:
        shop = subject.source(now=clock)
        subject.on(shop.name, "*", "also")
        await shop.send(id="evt_1")
        subject.records.settle(shop.name, "dead")
        subject.records.run(
            "UPDATE duly_jobs SET state = 'ready' WHERE name = 'also' AND event IN"
            f" (SELECT id FROM duly_events WHERE source = '{shop.name}')"
        )
        with pytest.raises(duly.errors.DulyError, match="also"):
            await subject.forget(shop.name, "evt_1")
        assert len(shop.worked()) == 2


async def test_a_forgotten_event_is_forgotten_by_its_body_too(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        hub = subject.source("github", now=clock)
        await hub.send(PAID, id="id_1", type="push")
        await hub.send(OTHER, id="id_1", type="push")  # a conflict, which is no event
        subject.records.finish(hub.name)
        await subject.forget(hub.name, "id_1")
        assert (await hub.send(PAID, id="id_2", type="push")).said == "accepted"
        assert (await hub.send(PAID, id="id_1", type="push")).said == "conflict"
        flags = sorted(event.flags for event in subject.records.events(hub.name))
        assert flags == ["", "conflict", "conflict replayed_body", "forgotten"]


async def test_an_ignored_event_can_be_forgotten_once_there_is_a_handler(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        shop = subject.source(now=clock, handled="order.*")
        assert (await shop.send(id="evt_1")).said == "ignored"
        subject.on(shop.name, "invoice.paid", "new")
        assert (await subject.forget(shop.name, "evt_1")).handlers == ("new",)
        assert (await shop.send(id="evt_1")).said == "accepted"
        assert shop.worked() == [("evt_1", "new")]


async def test_what_is_not_there_cannot_be_forgotten(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        shop = subject.source("github", now=clock)
        await shop.send(PAID, id="id_1", type="push")
        await shop.send(PAID, id="id_2", type="push")
        subject.records.finish(shop.name)
        before = subject.records.everything()
        for unknown in ("id_9", "id_2", "ID_1", "id_1 ", "\0", "\ud800", "x" * 5000):
            with pytest.raises(duly.errors.DulyError, match="nothing to forget"):
                await subject.forget(shop.name, unknown)
        with pytest.raises(duly.errors.DulyError, match="no source"):
            await subject.forget("nobody", "id_1")
        with pytest.raises(duly.errors.DulyError, match="event_id"):
            await subject.forget(shop.name, "")
        with pytest.raises(duly.errors.DulyError, match="tenant="):
            await subject.forget(shop.name, "id_1", tenant="ann")
        assert subject.records.everything() == before
        await subject.forget(shop.name, "id_1")
        with pytest.raises(duly.errors.DulyError, match="tenant="):
            await subject.forget(shop.name, "id_1", tenant="ann")


async def test_an_event_is_forgotten_for_its_tenant_alone(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    bodies = {whose: text({"type": "invoice.paid", "account": whose}) for whose in ("ann", "bob")}
    async with woven.open(place, clock) as subject:
        shop = subject.source(now=clock, tenant=lambda verified: str(verified.json["account"]))
        for body in bodies.values():
            await shop.send(body, id="evt_1")
        subject.records.finish(shop.name)
        with pytest.raises(duly.errors.DulyError, match="tenant="):
            await subject.forget(shop.name, "evt_1")
        await subject.forget(shop.name, "evt_1", tenant="ann")
        assert (await shop.send(bodies["ann"], id="evt_1")).said == "accepted"
        assert (await shop.send(bodies["bob"], id="evt_1")).said == "duplicate"


async def test_an_event_that_was_too_old_is_so_again_and_its_forgetter_is_told(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        stripe = subject.source("stripe", now=clock, window=KEEP)
        body = created(clock, KEEP + SECOND)
        assert (await stripe.send(body)).said == "too_old"
        forgotten = await subject.forget(stripe.name, "evt_1")
        assert (forgotten.too_old, forgotten.handlers) == (True, ())
        assert (await stripe.send(body)).said == "too_old"
        assert stripe.worked() == []


async def test_an_event_that_was_too_old_is_processed_where_nothing_is_too_old_any_more(
    durable_inline: Case, place: DatabaseOf, clock: HandClock
) -> None:
    body = created(clock, KEEP + SECOND)
    async with durable_inline.open(place, clock) as subject:
        stripe = subject.source("stripe", now=clock, window=KEEP)
        assert (await stripe.send(body)).said == "too_old"
    async with durable_inline.open(place, clock) as subject:
        stripe = subject.source("stripe", now=clock, window=None, name=stripe.name)
        forgotten = await subject.forget(stripe.name, "evt_1")
        assert (forgotten.too_old, forgotten.handlers) == (True, ("handle",))
        assert (await stripe.send(body)).said == "accepted"
        assert stripe.worked() == [("evt_1", "handle")]
