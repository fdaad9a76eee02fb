"""What a relay makes of how its attempts end: when a destination is left alone, and how long."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import duly
from duly.core.errors import EgressRefused
from duly.core.host import Host
from duly.ledger.lease import Lease
from duly.outbox.lease import LeasedMessage
from duly.outbox.message import BACKOFF
from duly.outbox.outcome import (
    RELEASED,
    SENT,
    Answered,
    AttemptContext,
    MessageOutcome,
    Unsigned,
    outcome_of_attempt,
)
from duly.relay import settings
from duly.relay.destination import UNHEALTHY_AFTER, Destination
from duly.relay.in_flight import InFlight
from duly.relay.settings import RelayPauses
from tests.outbox.offices import an_office, relaying
from tests.worker.subjects import Case, DatabaseOf, seen

if TYPE_CHECKING:
    from duly.outbox.message import Message

THERE = "https://example.com"
AT_ONCE = 10
BAD = MessageOutcome("again", attempts_used=1, unhealthy=True)
SECOND = 1_000_000
DAY = 24 * 3600
FIVE_MINUTES = 300.0


@dataclass
class Hours:
    """The clock that lanes look at, set by hand."""

    now: float = 1000.0

    @property
    def host(self) -> Host:
        """The machine that has this clock."""
        return Host(monotonic=lambda: self.now)


@pytest.fixture
def hours() -> Hours:
    return Hours()


def leased(attempts: int = 0) -> LeasedMessage:
    """A lease as the database gives it."""
    return LeasedMessage(
        lease=Lease("0198c3a2-5d1e-7b4f-9c60-8a2f41d7e305", b"t" * 16, 1), scope="send",
        destination=THERE, request=b"{}",
        body=b"1", signer=None, attempts=attempts, rescues=0, max_attempts=20,
        created_at=0, run_at=0, taken_at=0,
    )  # fmt: skip


def lane_with(hours: Hours, waiting: int = 0) -> Destination:
    lane = Destination(THERE, AT_ONCE, hours.host)
    lane.waiting.extend(InFlight(leased(), 0.0) for _ in range(waiting))
    return lane


def started(lane: Destination) -> int:
    """Begin whatever may be begun; how many."""
    begun = 0
    while (parcel := lane.pop_next()) is not None:
        lane.running.add(parcel)
        begun += 1
    return begun


def ended(problem: Exception) -> MessageOutcome:
    """How an attempt ends that met this."""
    return outcome_of_attempt(leased(), BACKOFF, problem, AttemptContext(0, 0.5))


def closed_by_failures(hours: Hours) -> Destination:
    lane = lane_with(hours)
    for _ in range(UNHEALTHY_AFTER):
        lane.record_result(BAD)
    assert lane.closed
    return lane


def test_a_few_failures_are_an_accident_and_an_answer_between_them_begins_the_count_anew(
    hours: Hours,
) -> None:
    lane = lane_with(hours, 1)
    for end in [BAD] * (UNHEALTHY_AFTER - 1) + [SENT] + [BAD] * (UNHEALTHY_AFTER - 1):
        assert not lane.record_result(end)
    assert started(lane) == 1
    assert lane.record_result(BAD)


@pytest.mark.parametrize("flying", [UNHEALTHY_AFTER, AT_ONCE, 100])
def test_whatever_was_on_its_way_a_lane_closes_for_the_first_step_only(
    hours: Hours, flying: int
) -> None:
    lane = lane_with(hours)
    told = [lane.record_result(BAD) for _ in range(flying)]
    assert told == [False] * (UNHEALTHY_AFTER - 1) + [True] + [False] * (flying - UNHEALTHY_AFTER)
    assert 1.0 <= lane.reopens_in <= 2.0
    assert (lane.closed, lane.room) == (True, 0)


def test_the_steps_double_up_to_five_minutes(hours: Hours) -> None:
    lane, steps = closed_by_failures(hours), []
    for _ in range(12):
        steps.append(lane.reopens_in)
        hours.now += lane.reopens_in
        assert not lane.closed
        assert lane.record_result(BAD)
    longest = [min(2.0**step, FIVE_MINUTES) for step in range(1, 13)]
    assert all(most / 2 <= step <= most for step, most in zip(steps, longest, strict=True)), steps


def test_after_a_pause_one_message_goes_first_and_the_others_follow_when_it_arrives(
    hours: Hours,
) -> None:
    lane = closed_by_failures(hours)
    lane.waiting.extend(InFlight(leased(), 0.0) for _ in range(2 * AT_ONCE))
    assert started(lane) == 0
    hours.now += lane.reopens_in
    assert started(lane) == 1
    lane.running.clear()
    lane.record_result(SENT)
    assert started(lane) == AT_ONCE
    for _ in range(UNHEALTHY_AFTER):
        lane.record_result(BAD)
    assert lane.reopens_in <= 2.0  # the steps begin anew, too


def test_a_wish_for_a_day_closes_a_lane_for_five_minutes_and_its_message_waits_a_day(
    hours: Hours,
) -> None:
    lane, end = lane_with(hours, 1), ended(Answered(429, str(DAY), None))
    assert end.delay >= DAY * SECOND
    assert lane.record_result(end)
    assert lane.reopens_in == FIVE_MINUTES
    hours.now += FIVE_MINUTES
    assert started(lane) == 1  # another message, long before tomorrow


def test_what_arrives_although_a_lane_is_closed_for_its_failures_opens_it(hours: Hours) -> None:
    lane = closed_by_failures(hours)
    lane.waiting.extend(InFlight(leased(), 0.0) for _ in range(AT_ONCE))
    assert not lane.record_result(SENT)
    assert started(lane) == AT_ONCE


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("on_its_way", [SENT, ended(Answered(404, None, None)), BAD])
def test_a_pause_that_was_asked_for_lasts_whatever_was_on_its_way_before(
    hours: Hours, status: int, on_its_way: MessageOutcome
) -> None:
    lane = lane_with(hours, AT_ONCE)
    assert lane.record_result(ended(Answered(status, "120", None)))
    assert not lane.record_result(on_its_way)
    hours.now += 119.0
    assert (lane.closed, lane.room, started(lane)) == (True, 0, 0)
    hours.now += 1.0
    assert started(lane) == 1  # one goes first
    lane.record_result(SENT)
    lane.running.clear()
    assert started(lane) == AT_ONCE - 1


def test_a_wish_that_comes_while_a_lane_is_closed_is_heard_and_outlasts_an_answer(
    hours: Hours,
) -> None:
    lane = closed_by_failures(hours)
    lane.record_result(ended(Answered(429, "120", None)))
    assert lane.reopens_in == 120.0
    lane.record_result(
        ended(Answered(429, "60", None))
    )  # the shorter of two wishes shortens nothing
    lane.record_result(SENT)
    assert lane.reopens_in == 120.0


def test_an_answer_ends_what_a_lane_is_closed_for_beyond_the_pause_that_was_asked_for(
    hours: Hours,
) -> None:
    lane = lane_with(hours)
    for _ in range(9):
        for _ in range(UNHEALTHY_AFTER):
            lane.record_result(BAD)
        hours.now += lane.reopens_in
    assert lane.record_result(ended(Answered(503, "7", None)))
    assert lane.reopens_in > 100.0
    lane.record_result(SENT)
    assert lane.reopens_in == 7.0


@pytest.mark.parametrize("status", [409, 425])
@pytest.mark.parametrize("retry_after", [None, "3600"])
def test_an_answer_about_one_message_closes_nothing(
    hours: Hours, status: int, retry_after: str | None
) -> None:
    lane = lane_with(hours, 1)
    for _ in range(2 * UNHEALTHY_AFTER):
        assert not lane.record_result(ended(Answered(status, retry_after, None)))
    assert started(lane) == 1


@pytest.mark.parametrize(
    "never_sent",
    [RELEASED, ended(Unsigned("no key")), ended(EgressRefused("it leads to 127.0.0.1: loopback"))],
    ids=["given back", "not signed", "refused by the guard"],
)
def test_what_was_never_sent_tells_nothing_of_a_destination(
    hours: Hours, never_sent: MessageOutcome
) -> None:
    lane = lane_with(hours)
    for _ in range(2 * UNHEALTHY_AFTER):
        assert not lane.record_result(never_sent)
    for _ in range(UNHEALTHY_AFTER - 1):
        lane.record_result(BAD)
        lane.record_result(never_sent)
    assert lane.record_result(BAD)  # the fifth in a row
    lane.record_result(never_sent)
    assert lane.closed


def test_a_lane_is_forgotten_when_nothing_is_left_to_know_of_it(hours: Hours) -> None:
    assert lane_with(hours).forgettable
    assert not lane_with(hours, 1).forgettable
    lane = lane_with(hours)
    lane.restart_scan()
    assert not lane.forgettable  # there may be more to send
    lane = lane_with(hours)
    lane.record_result(BAD)
    assert not lane.forgettable
    hours.now += FIVE_MINUTES
    assert lane.forgettable
    lane = closed_by_failures(hours)
    hours.now += lane.reopens_in
    assert not lane.forgettable  # the next step would be the first again
    hours.now += FIVE_MINUTES
    assert lane.forgettable


@pytest.mark.parametrize("case", [Case("memory", "async", "tx")], ids=lambda case: case.name)
async def test_a_relay_forgets_destinations_that_failed_and_have_nothing_more_to_send(
    case: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = duly.Backoff(first=timedelta(seconds=0.1), factor=1, cap=timedelta(seconds=0.1))
    monkeypatch.setattr(settings, "PAUSES", RelayPauses(closed=short))

    async def gone(message: Message) -> None:
        raise ConnectionError("nobody is there")

    async with an_office(case, place) as office:
        names = [f"gone{number}" for number in range(50)]
        for name in names:
            office.app.transport(name, attempts=1)(gone)
        await office.send_all([f"{name}:ann" for name in names])
        async with relaying(office) as relay:
            await seen(lambda: relay.relayed.dead == len(names))
            # Whoever still has something to send makes the relay look around.
            for number in range(1, 200):
                await office.send()
                await seen(lambda number=number: relay.relayed.sent == number)  # type: ignore[misc]
                if len(relay._dispatcher.destinations.by_name) == 1:
                    break
            assert list(relay._dispatcher.destinations.by_name) == [office.there.url]
