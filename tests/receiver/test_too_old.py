"""From before the ledger's memory: nobody can say whether it was handled, so a person must."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from duly.receiver import log_throttle
from tests.receiver.senders import PAID, text

if TYPE_CHECKING:
    import pytest

    from tests.conftest import HandClock
    from tests.receiver.senders import Sender
    from tests.receiver.subjects import Case, DatabaseOf

KEEP = timedelta(days=10)
SECOND = timedelta(seconds=1)


def created(clock: HandClock, age: timedelta, id: str = "evt_1") -> bytes:
    """An event of Stripe's, which says in its signed body when it happened."""
    moment = int((clock() - age).timestamp())
    return text({"id": id, "type": "charge.succeeded", "created": moment})


def parked(sender: Sender) -> bool:
    """Whether there is one event, flagged and without work."""
    [event] = sender.subject.records.events(sender.name)
    assert sender.subject.records.deliveries(sender.name) == {(event.event_id, "too_old"): 1}
    return event.flags == "too_old" and sender.worked() == []


async def test_an_event_that_happened_before_the_memory_is_parked(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        stripe = subject.source("stripe", now=clock, window=KEEP)
        answer = await stripe.send(created(clock, KEEP + SECOND))
        assert (answer.status, answer.said) == (200, "too_old")
        assert answer.json["event"] == "evt_1"
        happened = f"{clock() - KEEP - SECOND:%Y-%m-%dT%H:%M:%SZ}"
        assert answer.json["reason"].startswith(
            f"its event time is {happened}, and the ledger remembers 10 days: it is stored"
        )
        assert parked(stripe)
        assert subject.seen == []
        assert (await stripe.send(created(clock, KEEP + SECOND))).said == "duplicate"


async def test_a_delivery_that_was_signed_before_the_memory_is_parked(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        shop = subject.source(now=clock, window=KEEP, tolerance=None)
        answer = await shop.send(PAID, id="evt_1", now=clock() - KEEP - SECOND)
        assert (answer.status, answer.said) == (200, "too_old")
        signed = f"{clock() - KEEP - SECOND:%Y-%m-%dT%H:%M:%SZ}"
        assert answer.json["reason"].startswith(f"it was signed at {signed}, and the ledger")
        assert parked(shop)


async def test_the_log_tells_of_old_events_once_in_a_while_for_each_source(
    stored: Case,
    place: DatabaseOf,
    clock: HandClock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_throttle, "PAUSE", 3600.0)
    async with stored.open(place, clock) as subject:
        stripe = subject.source("stripe", now=clock, window=KEEP)
        with caplog.at_level(logging.WARNING, logger="duly"):
            for number in range(5):
                old = created(clock, KEEP + SECOND, f"evt_{number}")
                assert (await stripe.send(old)).said == "too_old"
    [line] = [record.getMessage() for record in caplog.records if "too_old" in record.getMessage()]
    assert line.startswith(f"event 'evt_0' of {stripe.name} is too_old: its event time is ")
    assert "raise window= of the source" in line


async def test_what_the_memory_still_covers_is_not_too_old(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        stripe = subject.source("stripe", now=clock, window=KEEP, tolerance=None)
        assert (await stripe.send(created(clock, KEEP))).said == "accepted"
        late = created(clock, KEEP, "evt_2")
        assert (await stripe.send(late, now=clock() - KEEP)).said == "accepted"
        assert len(stripe.worked()) == 2


async def test_a_known_event_is_a_duplicate_however_old_it_is(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        stripe = subject.source("stripe", now=clock, window=KEEP)
        body = created(clock, KEEP - SECOND)
        assert (await stripe.send(body)).said == "accepted"
        clock.advance(2 * SECOND)
        assert (await stripe.send(body)).said == "duplicate"


async def test_nothing_is_too_old_for_a_source_that_forgets_nothing(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        stripe = subject.source("stripe", now=clock, window=None, tolerance=None)
        old = timedelta(days=7000)
        assert (await stripe.send(created(clock, old), now=clock() - old)).said == "accepted"
        assert stripe.worked() == [("evt_1", "handle")]


async def test_a_time_that_is_not_signed_parks_nothing(
    stored: Case, place: DatabaseOf, clock: HandClock
) -> None:
    # Whoever repeats a delivery could write any time there.
    async with stored.open(place, clock) as subject:
        shop = subject.source("shopify", now=clock, window=KEEP)
        old = {"X-Shopify-Triggered-At": "2001-01-01T00:00:00Z"}
        assert (await shop.send(b"{}", id="id_1", headers=old)).said == "accepted"


async def test_an_old_event_among_new_ones_is_parked_alone(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    now = int(clock().timestamp())
    ages = {"sg_1": 0, "sg_2": 11 * 86_400, "sg_3": 60}
    batch = [
        {"event": "open", "sg_event_id": id, "timestamp": now - age} for id, age in ages.items()
    ]
    async with woven.open(place, clock) as subject:
        mails = subject.source("sendgrid", now=clock, window=KEEP)
        answer = await mails.send(text(batch))
        said = answer.json
        assert said.pop("reason").startswith("event 'sg_2': its event time is ")
        assert said == {"status": "accepted", "events": 3, "accepted": 2, "too_old": 1}
        assert mails.worked() == [("sg_1", "handle"), ("sg_3", "handle")]
