"""Destinations are apart: none takes the place of another, and one that fails is left alone."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

import duly
from duly.relay import destination, settings
from duly.relay.settings import RelayPauses
from tests.outbox.offices import AT_ONCE, STORES, an_office, relaying
from tests.outbox.receivers import Receiver
from tests.support.processes.leading import PATIENCE
from tests.worker.subjects import seen

if TYPE_CHECKING:
    from duly.outbox.message import Message
    from tests.conftest import HandClock
    from tests.worker.subjects import Case, DatabaseOf

every_store = pytest.mark.parametrize("case", STORES, ids=lambda case: case.name)


class Gauge:
    """A transport that knows how many of its calls ran at the same time.

    The first wait until as many run as may, however slow the machine is; each then takes a while,
    in which one more would be seen.
    """

    def __init__(self, places: int) -> None:
        self.places = places
        self.changed = threading.Condition()
        self.running = self.most = self.calls = 0

    def __call__(self, message: Message) -> None:
        with self.changed:
            self.calls += 1
            self.running += 1
            self.most = max(self.most, self.running)
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.most >= self.places, PATIENCE)
        time.sleep(0.01)
        with self.changed:
            self.running -= 1


class Moody:
    """A transport that fails while it is ill."""

    def __init__(self) -> None:
        self.ill = True
        self.calls: list[float] = []

    def __call__(self, message: Message) -> None:
        self.calls.append(time.monotonic())
        if self.ill:
            raise ConnectionError("down")


@every_store
async def test_no_more_than_so_many_are_on_their_way_to_one_destination(
    case: Case, place: DatabaseOf
) -> None:
    with Receiver() as other:
        async with an_office(case, place, None, other) as office:
            both = (office.there, other)
            released = [one.hold("/hook") for one in both]
            await office.send_all(["/hook", f"{other.url}/hook"] * 20)
            async with relaying(office, per_destination=3) as relay:
                await seen(lambda: all(one.most_at_once() == 3 for one in both))
                for one in released:
                    one.set()
                await seen(lambda: relay.relayed.sent == 40)
            assert [one.most_at_once() for one in both] == [3, 3]


@every_store
async def test_no_more_than_so_many_are_on_their_way_in_all(case: Case, place: DatabaseOf) -> None:
    gauge = Gauge(4)
    async with an_office(case, place) as office:
        for name in ("mail", "text", "push"):
            office.app.transport(name)(gauge.__call__)
        await office.send_all(["mail:a", "text:a", "push:a"] * 10)
        assert (await office.relay(concurrency=4)).sent == 30
        assert gauge.most == 4


@every_store
async def test_a_transport_has_a_concurrency_of_its_own(case: Case, place: DatabaseOf) -> None:
    gauge = Gauge(2)
    async with an_office(case, place) as office:
        office.app.transport("mail", concurrency=2)(gauge.__call__)
        await office.send_many(12, "mail:ann")
        assert (await office.relay(per_destination=10)).sent == 12
        assert gauge.most == 2


@every_store
async def test_one_slow_destination_holds_no_other_up(case: Case, place: DatabaseOf) -> None:
    with Receiver() as slow:
        async with an_office(case, place, None, slow) as office:
            released = slow.hold("/hook")
            await office.send_many(60, f"{slow.url}/hook")
            await office.send_many(60)
            async with relaying(office, concurrency=6, per_destination=3) as relay:
                await seen(lambda: len(office.there.requests) == 60)
                assert slow.most_at_once() == 3
                released.set()
                await seen(lambda: relay.relayed.sent == 120)
            assert (relay.relayed.resent, relay.relayed.lost) == (0, 0)


@every_store
async def test_every_one_of_many_destinations_gets_its_turn(case: Case, place: DatabaseOf) -> None:
    """More destinations than a relay looks at together, and no one of them first."""
    sent: list[str] = []

    def note(message: Message) -> None:
        sent.append(message.url)

    async with an_office(case, place) as office:
        names = [f"to{number:02}" for number in range(30)]
        for name in names:
            office.app.transport(name)(note)
        await office.send_all([f"{name}:a" for name in names for _ in range(3)])
        assert (await office.relay(concurrency=4, per_destination=1)).sent == 90
        assert {url: sent.count(url) for url in sent} == {f"{name}:a": 3 for name in names}


@every_store
async def test_a_destination_that_keeps_failing_is_left_alone_and_its_messages_unharmed(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    moody = Moody()
    async with an_office(case, place, clock) as office:
        office.app.transport("mail", concurrency=1, backoff=AT_ONCE)(moody.__call__)
        await office.send_many(20, "mail:ann")
        await office.send_many(20)
        relayed = await office.relay()
        assert (relayed.sent, relayed.retried, relayed.dead) == (20, destination.UNHEALTHY_AFTER, 0)
        assert len(moody.calls) == destination.UNHEALTHY_AFTER
        left = [row for row in office.messages() if row.destination == "mail"]
        assert len(left) == 20
        assert {row.state for row in left} == {"ready"}
        assert sum(row.attempts for row in left) == destination.UNHEALTHY_AFTER
        assert sum(row.rescues for row in left) == 0
        assert len(office.there.requests) == 20


@every_store
async def test_a_destination_that_recovers_is_tried_with_one_message_and_then_gets_the_rest(
    case: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = duly.Backoff(first=timedelta(seconds=0.2), factor=1, cap=timedelta(seconds=0.2))
    monkeypatch.setattr(settings, "PAUSES", RelayPauses(closed=short))
    moody = Moody()
    async with an_office(case, place) as office:
        office.app.transport("mail", concurrency=5, backoff=AT_ONCE)(moody.__call__)
        await office.send_many(40, "mail:ann")
        async with relaying(office) as relay:
            # Those that ran beside the fifth failure, and then one each time.
            await seen(lambda: len(moody.calls) >= destination.UNHEALTHY_AFTER + 4 + 3)
            moody.ill = False
            await seen(lambda: office.messages() == [])
        probes = moody.calls[destination.UNHEALTHY_AFTER + 4 : destination.UNHEALTHY_AFTER + 4 + 3]
        gaps = [after - before for before, after in pairwise(probes)]
        assert all(gap > 0.09 for gap in gaps), gaps
        assert relay.relayed.sent == 40
        assert relay.relayed.dead == 0


@every_store
async def test_a_destination_that_asks_for_a_pause_is_left_alone_as_a_whole(
    case: Case, place: DatabaseOf
) -> None:
    async with an_office(case, place) as office:
        office.there.answer("/hook", 429, headers={"Retry-After": "1"}, times=1)
        await office.send_many(5)
        async with relaying(office, per_destination=1) as relay:
            await seen(lambda: relay.relayed.sent >= 4)  # the one that was refused may come later
        first, second, *_ = office.there.requests
        assert second.at - first.at >= 1.0
        assert relay.relayed.retried == 1


@every_store
@pytest.mark.parametrize("status", [302, 404, 409, 425])
async def test_an_answer_that_is_about_one_message_says_nothing_of_its_destination(
    case: Case, place: DatabaseOf, status: int
) -> None:
    async with an_office(case, place) as office:
        office.there.answer("/refused", status)
        await office.send_many(destination.UNHEALTHY_AFTER + 1, "/refused")
        await office.send_many(5)
        relayed = await office.relay(per_destination=1)
        assert relayed.sent == 5
        assert (
            relayed.dead + relayed.retried >= destination.UNHEALTHY_AFTER + 1
        )  # some come due again at once
