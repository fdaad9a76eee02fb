"""Several events in one delivery: each is claimed by itself, whatever it comes with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.receiver.senders import text

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import HandClock
    from tests.receiver.senders import Sender
    from tests.receiver.subjects import Case, DatabaseOf


def hubspot(*numbers: int) -> bytes:
    return text(
        [
            {
                "eventId": number,
                "subscriptionId": 2,
                "portalId": 3,
                "objectId": number,
                "occurredAt": 1767225600000,
                "subscriptionType": "contact.creation",
                "attemptNumber": 0,
            }
            for number in numbers
        ]
    )


def sendgrid(*numbers: int) -> bytes:
    mail = {"email": "a@example.com", "event": "delivered", "timestamp": 1767225600}
    # The real ones have line breaks between and after the events, which are signed.
    lines = [text({**mail, "sg_event_id": f"sg_{number}"}) for number in numbers]
    return b"[" + b",\r\n".join(lines) + b"]\r\n"


def adyen(*numbers: int) -> bytes:
    paid = {
        "merchantAccountCode": "Shop",
        "merchantReference": "order-1",
        "amount": {"value": 2000, "currency": "EUR"},
        "eventCode": "AUTHORISATION",
        "success": "true",
    }
    items = [{"NotificationRequestItem": {**paid, "pspReference": f"p_{n}"}} for n in numbers]
    return text({"live": "false", "notificationItems": items})


Batch = tuple[str, "Callable[..., bytes]", int]
BATCHES: list[Batch] = [
    ("hubspot", hubspot, 200),
    ("sendgrid", sendgrid, 200),
    ("adyen", adyen, 202),
]


@pytest.fixture(params=BATCHES, ids=lambda batch: batch[0])
def batch(request: pytest.FixtureRequest) -> Batch:
    found: Batch = request.param
    return found


def ids(sender: Sender) -> list[str]:
    return [event.event_id for event in sender.subject.records.events(sender.name)]


async def test_each_event_of_a_delivery_is_claimed_and_worked_on_by_itself(
    stored: Case, place: DatabaseOf, clock: HandClock, batch: Batch
) -> None:
    provider, of, success = batch
    async with stored.open(place, clock) as subject:
        sender = subject.source(provider, now=clock)
        answer = await sender.send(of(1, 2, 3))

        assert answer.status == success
        assert answer.json == {"status": "accepted", "events": 3, "accepted": 3}
        assert len(set(ids(sender))) == len(subject.records.claims(sender.name)) == 3
        assert [event for event, _ in sender.worked()] == sorted(ids(sender))


async def test_old_and_new_events_may_come_together_and_are_counted_apart(
    stored: Case, place: DatabaseOf, clock: HandClock, batch: Batch
) -> None:
    provider, of, success = batch
    async with stored.open(place, clock) as subject:
        sender = subject.source(provider, now=clock)
        await sender.send(of(1, 2))
        mixed = await sender.send(of(3, 2, 4, 1, 5))
        again = await sender.send(of(5, 4, 3, 2, 1))

        assert mixed.status == again.status == success
        assert mixed.json == {"status": "accepted", "events": 5, "accepted": 3, "duplicate": 2}
        assert again.json == {"status": "duplicate", "events": 5, "duplicate": 5}
        assert len(sender.worked()) == len(set(ids(sender))) == 5


async def test_an_event_is_the_same_whatever_it_comes_with(
    stored: Case, place: DatabaseOf, clock: HandClock, batch: Batch
) -> None:
    provider, of, _ = batch
    async with stored.open(place, clock) as subject:
        sender = subject.source(provider, now=clock)
        alone = await sender.send(of(1))
        assert (alone.said, alone.json["event"]) == ("accepted", ids(sender)[0])
        together = await sender.send(of(2, 1))
        once_more = await sender.send(of(2))

        assert together.json["duplicate"] == together.json["accepted"] == 1
        assert once_more.said == "duplicate"
        assert "body_differs" not in once_more.json
        assert len(sender.worked()) == 2


async def test_an_event_that_is_twice_in_one_delivery_is_worked_on_once(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        sender = subject.source("sendgrid", now=clock)
        answer = await sender.send(sendgrid(1, 2, 1, 1))

        assert answer.json == {"status": "accepted", "events": 4, "accepted": 2, "duplicate": 2}
        assert sender.worked() == [("sg_1", "handle"), ("sg_2", "handle")]


async def test_the_old_events_of_a_mixed_delivery_are_not_handled_again(
    inline: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with inline.open(place, clock) as subject:
        sender = subject.source("sendgrid", now=clock)
        await sender.send(sendgrid(1, 2))
        mixed = await sender.send(sendgrid(2, 3))

        assert mixed.json == {"status": "accepted", "events": 2, "accepted": 1, "duplicate": 1}
        assert sender.worked() == [(f"sg_{number}", "handle") for number in (1, 2, 3)]
        assert [event.json["sg_event_id"] for event in subject.seen] == ["sg_1", "sg_2", "sg_3"]


async def test_an_item_without_an_id_is_known_by_what_it_says(
    stored: Case, place: DatabaseOf, clock: HandClock
) -> None:
    nameless: dict[str, Any] = {"event": "bounce", "reason": "full"}
    named = {"event": "open", "sg_event_id": "sg_1"}
    async with stored.open(place, clock) as subject:
        sender = subject.source("sendgrid", now=clock)
        await sender.send(text([named, nameless]))
        again = await sender.send(text([nameless, {**nameless, "reason": "gone"}]))

        assert again.json == {"status": "accepted", "events": 2, "accepted": 1, "duplicate": 1}
        assert len(sender.worked()) == 3


async def test_events_of_one_delivery_find_their_handlers_each_by_its_type(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    mails = [{"event": kind, "sg_event_id": f"sg_{kind}"} for kind in ("open", "bounce", "spam")]
    async with woven.open(place, clock) as subject:
        sender = subject.source("sendgrid", now=clock, handled="open")
        subject.on(sender.name, "bounce", "other")
        answer = await sender.send(text(mails))

        assert answer.json == {"status": "accepted", "events": 3, "accepted": 2, "ignored": 1}
        assert sender.worked() == [("sg_bounce", "other"), ("sg_open", "handle")]


async def test_a_delivery_without_a_single_event_is_remembered_as_it_is(
    stored: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with stored.open(place, clock) as subject:
        sender = subject.source("sendgrid", now=clock)
        assert (await sender.send(b"[]")).said == "accepted"
        assert (await sender.send(b"[]")).said == "duplicate"
        [event] = subject.records.events(sender.name)
        assert event.body == b"[]"
