"""Many at once: however they meet in time, in a batch or in a queue, one of them is first."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from duly.inbox.accept_one import CONFLICTS_FOR_BODY
from tests.receiver.drivers import CROWD
from tests.receiver.senders import PAID, text

if TYPE_CHECKING:
    from tests.conftest import HandClock
    from tests.receiver.drivers import Answer
    from tests.receiver.subjects import Case, DatabaseOf

pytestmark = pytest.mark.slow


def told(answers: list[Answer]) -> Counter[tuple[int, str]]:
    """How often each answer was given."""
    return Counter((answer.status, answer.said) for answer in answers)


@pytest.mark.promise("I5", "one first")
async def test_of_200_concurrent_copies_one_is_accepted_and_all_are_acknowledged(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with case.open(place, clock) as subject:
        shop = subject.source(now=clock)
        subject.on(shop.name, "invoice.*", "also")
        answers = await shop.send_copies(CROWD, id="evt_1")

        assert told(answers) == {(200, "accepted"): 1, (200, "duplicate"): CROWD - 1}
        assert len(subject.records.events(shop.name)) == 1
        assert subject.records.claims(shop.name) == ["evt_1"]
        assert shop.worked() == [("evt_1", "also"), ("evt_1", "handle")]


async def test_copies_of_several_events_that_travel_together_are_settled_each_by_itself(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        hub = subject.source("github", now=clock)  # ids that are not signed: two claims for each
        bodies = [text({"action": "opened", "number": number}) for number in range(5)]
        answers = await asyncio.gather(
            *(
                hub.send_copies(8, body, id=f"id_{n}", type="issues")
                for n, body in enumerate(bodies)
            )
        )

        for of_one in answers:
            assert told(of_one) == {(200, "accepted"): 1, (200, "duplicate"): 7}
        kept = Counter(event.body for event in subject.records.events(hub.name))
        assert kept == Counter(bodies)
        assert hub.worked() == [(f"id_{number}", "handle") for number in range(5)]


async def test_of_many_bodies_under_one_signed_id_one_is_processed(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        shop = subject.source(now=clock)
        bodies = [text({"type": "invoice.paid", "attempt": attempt}) for attempt in range(20)]
        answers = await asyncio.gather(*(shop.send(body, id="evt_1") for body in bodies))

        assert told(answers) == {(200, "accepted"): 1, (200, "duplicate"): 19}
        assert sum("body_differs" in answer.json for answer in answers) == 19
        [event] = subject.records.events(shop.name)
        [first] = [one for one, answer in enumerate(answers) if answer.said == "accepted"]
        assert event.body == bodies[first]
        assert shop.worked() == [("evt_1", "handle")]


@pytest.mark.promise("I14")
async def test_of_many_bodies_under_one_unsigned_id_one_is_processed_and_each_other_is_kept(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        hub = subject.source("github", now=clock)
        bodies = [text({"action": "opened", "number": number}) for number in range(8)]
        sent = [hub.send(body, id="id_1", type="issues") for body in bodies for _ in range(2)]
        answers = await asyncio.gather(*sent)

        assert told(answers) == {
            (200, "accepted"): 1, (200, "duplicate"): 1, (200, "conflict"): 14,
        }  # fmt: skip
        events = subject.records.events(hub.name)
        assert Counter(event.body for event in events) == Counter(bodies)
        assert Counter(event.flags for event in events) == {"": 1, "conflict": 7}
        assert hub.worked() == [("id_1", "handle")]


async def test_of_many_unsigned_ids_on_one_body_one_is_processed(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    """The others are recorded, so many at most, and the body with the first of them."""
    async with woven.open(place, clock) as subject:
        hub = subject.source("github", now=clock)
        many = CONFLICTS_FOR_BODY + 30
        answers = await asyncio.gather(
            *(hub.send(PAID, id=f"id_{number}", type="issues") for number in range(many))
        )

        assert told(answers) == {(200, "accepted"): 1, (200, "conflict"): many - 1}
        events = subject.records.events(hub.name)
        recorded = Counter(event.flags for event in events)
        assert recorded.pop("") == 1
        # Those that are recorded at the same moment, on ten connections, do not see each other.
        assert (
            CONFLICTS_FOR_BODY <= recorded.pop("conflict replayed_body") < CONFLICTS_FOR_BODY + 10
        )
        assert not recorded
        assert len({event.event_id for event in events}) == len(events)
        kept = Counter(event.flags for event in events if event.body is not None)
        assert kept == {"": 1, "conflict replayed_body": 1}
        assert len(hub.worked()) == 1
