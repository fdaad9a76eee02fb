"""An id and its body: what counts as a repeat, what as a conflict, and what is never processed."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from tests.receiver.drivers import Request
from tests.receiver.senders import OTHER, PAID

if TYPE_CHECKING:
    from tests.conftest import HandClock
    from tests.receiver.senders import Sender
    from tests.receiver.subjects import Case, DatabaseOf


def nameless(hub: Sender, body: bytes = PAID) -> Request:
    """The same delivery as it comes from a sender that gives no id."""
    request = hub.request(body, type="push")
    kept = {name: value for name, value in request.headers.items() if "Delivery" not in name}
    assert len(kept) == len(request.headers) - 1
    return Request(request.path, request.body, kept)


@pytest.mark.promise("I5")
async def test_a_changed_body_under_a_signed_id_is_a_duplicate_that_says_so(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with case.open(place, clock) as subject:
        shop = subject.source(now=clock)
        await shop.send(PAID, id="evt_1")
        changed = await shop.send(OTHER, id="evt_1")
        same = await shop.send(PAID, id="evt_1")

        assert changed.json == {"status": "duplicate", "event": "evt_1", "body_differs": True}
        assert same.json == {"status": "duplicate", "event": "evt_1"}
        assert [event.body for event in subject.records.events(shop.name)] == [PAID]
        assert shop.worked() == [("evt_1", "handle")]
        await subject.flush()
        assert subject.records.deliveries(shop.name) == {
            ("evt_1", "accepted"): 1, ("evt_1", "duplicate"): 1, ("evt_1", "body_differs"): 1,
        }  # fmt: skip


@pytest.mark.promise("I14")
async def test_a_changed_body_under_an_unsigned_id_is_a_conflict_that_is_kept_once(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with case.open(place, clock) as subject:
        hub = subject.source("github", now=clock)
        await hub.send(PAID, id="id_1", type="push")
        for _ in range(3):
            answer = await hub.send(OTHER, id="id_1", type="push")
            assert (answer.status, answer.json) == (200, {"status": "conflict", "event": "id_1"})

        events = subject.records.events(hub.name)
        assert [(event.event_id, event.flags, event.body) for event in events] == [
            ("id_1", "", PAID),
            ("id_1", "conflict", OTHER),
        ]
        assert subject.records.deliveries(hub.name)["id_1", "conflict"] == 1
        assert hub.worked() == [("id_1", "handle")]


async def test_a_conflict_harms_neither_the_event_nor_the_body_it_names(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        hub = subject.source("github", now=clock)
        await hub.send(PAID, id="id_1", type="push")
        assert (await hub.send(OTHER, id="id_1", type="push")).said == "conflict"
        assert (await hub.send(PAID, id="id_1", type="push")).said == "duplicate"
        # Nobody has processed this body: under an id of its own it is an event.
        assert (await hub.send(OTHER, id="id_2", type="push")).said == "accepted"
        assert (await hub.send(OTHER, id="id_2", type="push")).said == "duplicate"
        assert (await hub.send(OTHER, id="id_1", type="push")).said == "conflict"
        assert hub.worked() == [("id_1", "handle"), ("id_2", "handle")]


@pytest.mark.promise("I14")
async def test_a_known_body_under_a_fresh_unsigned_id_is_a_conflict_flagged_as_replayed(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with case.open(place, clock) as subject:
        hub = subject.source("github", now=clock)
        await hub.send(PAID, id="id_1", type="push")
        for _ in range(3):
            answer = await hub.send(PAID, id="id_2", type="push")
            assert (answer.status, answer.json) == (200, {"status": "conflict", "event": "id_2"})

        events = subject.records.events(hub.name)
        assert [(event.event_id, event.flags) for event in events] == [
            ("id_1", ""),
            ("id_2", "conflict replayed_body"),
        ]
        assert hub.worked() == [("id_1", "handle")]
        # Whoever made up the id has not taken it from the event that it belongs to.
        assert (await hub.send(OTHER, id="id_2", type="push")).said == "accepted"
        assert (await hub.send(PAID, id="id_1", type="push")).said == "duplicate"
        assert hub.worked() == [("id_1", "handle"), ("id_2", "handle")]


async def test_two_known_events_cannot_be_mixed(
    stored: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with stored.open(place, clock) as subject:
        hub = subject.source("github", now=clock)
        await hub.send(PAID, id="id_1", type="push")
        await hub.send(OTHER, id="id_2", type="push")
        assert (await hub.send(OTHER, id="id_1", type="push")).said == "conflict"
        assert (await hub.send(PAID, id="id_2", type="push")).said == "conflict"
        assert hub.worked() == [("id_1", "handle"), ("id_2", "handle")]


async def test_a_source_whose_bodies_repeat_can_have_them_processed(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        hub = subject.source("github", now=clock, replayed_body="process")
        assert (await hub.send(PAID, id="id_1", type="push")).said == "accepted"
        assert (await hub.send(PAID, id="id_2", type="push")).said == "accepted"
        assert (await hub.send(PAID, id="id_2", type="push")).said == "duplicate"
        assert (await hub.send(OTHER, id="id_2", type="push")).said == "conflict"
        assert hub.worked() == [("id_1", "handle"), ("id_2", "handle")]


async def test_the_body_stands_in_for_an_id_that_is_missing(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    stand_in = "body_" + hashlib.sha256(PAID).hexdigest()
    async with woven.open(place, clock) as subject:
        hub = subject.source("github", now=clock)
        answer = await subject.ask(nameless(hub))
        assert answer.json == {"status": "accepted", "event": stand_in}
        assert (await subject.ask(nameless(hub))).said == "duplicate"
        assert (await subject.ask(nameless(hub, OTHER))).said == "accepted"
        # The same body, to which somebody has added an id.
        assert (await hub.send(PAID, id="id_1", type="push")).said == "conflict"
        flags = {event.event_id: event.flags for event in subject.records.events(hub.name)}
        assert flags["id_1"] == "conflict replayed_body"
        assert len(hub.worked()) == 2


async def test_leaving_out_the_id_of_a_known_delivery_is_no_new_event(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        hub = subject.source("github", now=clock)
        assert (await hub.send(PAID, id="id_1", type="push")).said == "accepted"
        assert (await subject.ask(nameless(hub))).said == "duplicate"
        assert hub.worked() == [("id_1", "handle")]


async def test_a_known_id_is_known_to_its_source_alone(
    stored: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with stored.open(place, clock) as subject:
        one, two = (subject.source("github", now=clock) for _ in range(2))
        for hub in (one, two):
            assert (await hub.send(PAID, id="id_1", type="push")).said == "accepted"
        assert one.worked() == two.worked() == [("id_1", "handle")]
