"""What becomes of a message, by what its receiver answered; and what is kept of it."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING

import pytest

import duly
from duly.core.clock import to_microseconds
from duly.ledger.lease import Lease
from duly.outbox.lease import LeasedMessage
from duly.outbox.message import BACKOFF
from duly.outbox.outcome import (
    LONGEST_PAUSE,
    Answered,
    AttemptContext,
    MessageOutcome,
    outcome_of_attempt,
    pause_of,
)
from tests.outbox.offices import STORES, an_office
from tests.outbox.receivers import Receiver

if TYPE_CHECKING:
    from tests.conftest import HandClock
    from tests.worker.subjects import Case, DatabaseOf

every_store = pytest.mark.parametrize("case", STORES, ids=lambda case: case.name)
SENT, AGAIN, DEAD = "sent", "again", "dead"
ANSWERS = {
    200: SENT, 201: SENT, 202: SENT, 204: SENT, 206: SENT, 299: SENT,
    300: DEAD, 301: DEAD, 302: DEAD, 303: DEAD, 304: DEAD, 307: DEAD, 308: DEAD,
    400: DEAD, 401: DEAD, 403: DEAD, 404: DEAD, 405: DEAD, 410: DEAD, 413: DEAD, 415: DEAD,
    422: DEAD, 451: DEAD,
    408: AGAIN, 409: AGAIN, 425: AGAIN, 429: AGAIN,
    500: AGAIN, 501: AGAIN, 502: AGAIN, 503: AGAIN, 504: AGAIN, 507: AGAIN, 599: AGAIN,
}  # fmt: skip
NOW = datetime(2026, 1, 1, tzinfo=UTC)
# Nothing in its form tells that it is one.
FORMLESS = "tangerine-lamp-forty-two"
SECRET = "whsec_" + "c2VjcmV0IG9mIHRoZSBzaG9w" + "AAAA"


@every_store
async def test_each_status_decides_as_designed(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    with ExitStack() as stack:
        receivers = {status: stack.enter_context(Receiver()) for status in ANSWERS}
        async with an_office(case, place, clock, *receivers.values()) as office:
            ids = {}
            for status, there in receivers.items():
                there.answer("/", status, headers={"Location": f"{there.url}/elsewhere"})
                ids[status] = (await office.send(f"{there.url}/")).id
            relayed = await office.relay()

            states = {row.id: row.state for row in office.messages()}
            outcome = {"ready": AGAIN, "dead": DEAD}
            found = {s: outcome[states[id]] if id in states else SENT for s, id in ids.items()}
            assert found == ANSWERS
            told = list(ANSWERS.values())
            assert (relayed.sent, relayed.retried, relayed.dead) == (
                told.count(SENT), told.count(AGAIN), told.count(DEAD),
            )  # fmt: skip
            # One request to each, and none to where a redirect leads.
            assert {tuple(r.path for r in there.requests) for there in receivers.values()} == {
                ("/",)
            }
            for status, there in receivers.items():
                kept = [r for r in office.messages() if r.id == ids[status]]
                assert len(office.history(ids[status])) == (not kept)
                for row in kept:
                    assert (row.attempts, row.rescues) == (1, 0)
                    assert row.error is not None
                    assert row.error["type"] == "duly.Answered"
                    assert f"answered {status}" in row.error["message"]
                    assert row.destination == there.url


@every_store
async def test_what_was_sent_is_a_row_of_the_history_and_no_message_any_more(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with an_office(case, place, clock) as office:
        office.there.answer("/hook", 500, times=1)
        staged = await office.send()
        await office.relay()
        assert office.history(staged.id) == []
        clock.advance(timedelta(hours=1))
        relayed = await office.relay()
        assert (relayed.sent, relayed.resent) == (1, 1)
        assert office.messages() == []
        assert office.history(staged.id) == [(office.there.url, "sent", 2)]
        assert office.counts() == {"again": 1, "sent": 1, "resent": 1}


@every_store
async def test_every_attempt_is_the_same_request(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with an_office(case, place, clock) as office:
        office.app.signer("ours", secret=SECRET)
        office.there.answer("/hook", 500, times=2)
        office.there.reset("/hook", times=1)
        staged = await office.send(data=bytes(range(256)), sign="ours", headers={"X-Shop": "7"})
        for _ in range(4):
            await office.relay()
            clock.advance(timedelta(hours=1))
        arrived = office.there.requests
        assert len(arrived) == 4
        assert {one.body for one in arrived} == {bytes(range(256))}
        assert {one.headers["idempotency-key"] for one in arrived} == {staged.id}
        assert {one.headers["webhook-id"] for one in arrived} == {staged.id}
        changing = {"webhook-timestamp", "webhook-signature"}
        rest = [{k: v for k, v in one.headers.items() if k not in changing} for one in arrived]
        assert all(one == rest[0] for one in rest)
        assert office.messages() == []


@every_store
async def test_retry_after_is_honoured_in_seconds_and_as_a_date_up_to_a_day(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    # The lowest and the highest wait, where the longest of our own after one failure is 10 s.
    asked = {
        "120": (120.0, 130.0),
        "3": (3.0, 10.0),
        format_datetime(clock() + timedelta(minutes=5), usegmt=True): (300.0, 310.0),
        "86400": (86400.0, 86410.0),
        "86401": (0.0, 10.0),
        "999999999": (0.0, 10.0),
        "soon": (0.0, 10.0),
        "-5": (0.0, 10.0),
        "1e3": (0.0, 10.0),
    }
    with ExitStack() as stack:
        receivers = {text: stack.enter_context(Receiver()) for text in asked}
        async with an_office(case, place, clock, *receivers.values()) as office:
            for number, (text, there) in enumerate(receivers.items()):
                there.answer("/", 503 if number % 2 else 429, headers={"Retry-After": text})
                await office.send(f"{there.url}/")
            assert (await office.relay()).retried == len(asked)
            waits = {row.destination: row.wait.total_seconds() for row in office.messages()}
            for text, (least, most) in asked.items():
                assert least <= waits[receivers[text].url] <= most, text


@every_store
async def test_a_wish_for_no_pause_does_not_use_up_the_attempts_at_once(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    past = format_datetime(clock() - timedelta(minutes=5), usegmt=True)
    with Receiver() as behind:
        async with an_office(case, place, clock, behind) as office:
            office.there.answer("/hook", 503, headers={"Retry-After": "0"})
            behind.answer("/hook", 503, headers={"Retry-After": past})
            await office.send()
            await office.send(f"{behind.url}/hook")
            assert (await office.relay()).retried == 2
            assert [row.counted for row in office.messages()] == [("ready", 1, 0)] * 2


@every_store
async def test_the_last_attempt_makes_it_a_dead_letter_that_says_why(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with an_office(case, place, clock) as office:
        office.there.answer("/hook", 502, times=2)
        office.there.reset("/hook")
        staged = await office.send(attempts=3)
        ends = []
        for _ in range(4):
            relayed = await office.relay()
            ends.append((relayed.retried, relayed.dead))
            clock.advance(timedelta(hours=1))
        assert ends == [(1, 0), (1, 0), (0, 1), (0, 0)]
        assert len(office.there.requests) == 3
        assert office.message(staged.id).counted == ("dead", 3, 0)
        [letter] = await office.call("outbox.dead")
        assert (letter.id, letter.attempts, letter.max_attempts) == (staged.id, 3, 3)
        assert letter.failure.type == "duly.Unreached"
        assert letter.failure.attempt == 3
        assert letter.dead_at == clock() - timedelta(hours=2)


@every_store
async def test_a_receiver_that_is_not_there_is_tried_again(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    with socket.socket() as closed:  # bound, so that nothing else gets the port; not listening
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        async with an_office(case, place, clock, url) as office:
            staged = await office.send(f"{url}/hook")
            assert (await office.relay()).retried == 1
            row = office.message(staged.id)
            assert row.counted == ("ready", 1, 0)
            assert row.error is not None
            assert row.error["type"] == "duly.Unreached"


@every_store
async def test_a_receiver_that_does_not_answer_in_time_is_tried_again(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    deadline = timedelta(milliseconds=200)
    async with an_office(case, place, clock, deadline=deadline) as office:
        released = office.there.hold("/hook")
        staged = await office.send()
        assert (await office.relay()).retried == 1
        row = office.message(staged.id)
        assert row.counted == ("ready", 1, 0)
        assert row.error is not None
        assert "0.2 seconds" in row.error["message"]
        released.set()


@every_store
async def test_no_secret_is_in_what_is_kept_of_a_failure(case: Case, place: DatabaseOf) -> None:
    async with an_office(case, place) as office:
        office.app.signer("ours", secret=SECRET)
        office.app.source("hub", provider="github", secret=FORMLESS)

        @office.app.transport("mail", attempts=1)
        def mail(message: object) -> None:
            raise ValueError(f"could not log in with {SECRET} or {FORMLESS}")

        office.there.answer("/moved", 302, headers={"Location": f"https://a/?token={SECRET}"})
        await office.send("/moved", sign="ours")
        await office.send("mail:ann@example.com")
        assert (await office.relay()).dead == 2
        kept = str([row.error for row in office.messages()])
        assert "could not log in" in kept
        assert "redirects are not followed" in kept
        shown = str(await office.call("outbox.dead"))
        rows = str(office.everything())
        for secret in (SECRET.removeprefix("whsec_"), FORMLESS):
            assert secret not in kept
            assert secret not in shown
            assert secret not in rows


LEASE = LeasedMessage(
    Lease("id", b"", 1), "send", "https://example.com", b"{}", None, None, 0, 0, 20, 0, 0, 0
)


def ended(
    status: int, *, attempt: int = 1, draw: float = 0.5, retry: str | None = None
) -> MessageOutcome:
    """What follows from one answer."""
    at = AttemptContext(to_microseconds(NOW), draw)
    message = LEASE._replace(attempts=attempt - 1)
    return outcome_of_attempt(message, BACKOFF, Answered(status, retry, None), at)


@pytest.mark.parametrize("attempt", range(1, 20))
def test_the_wait_grows_up_to_its_cap_and_is_drawn_evenly(attempt: int) -> None:
    longest = min(10 * 3 ** (attempt - 1), 8 * 3600) * 1_000_000
    assert ended(503, attempt=attempt, draw=0.0).delay == 0
    assert ended(503, attempt=attempt, draw=0.5).delay == longest // 2
    assert longest * 0.99 < ended(503, attempt=attempt, draw=0.9999).delay < longest


def test_twenty_attempts_are_about_two_days() -> None:
    waits = [ended(503, attempt=attempt, draw=0.5).delay for attempt in range(1, 20)]
    assert timedelta(days=1.5) < timedelta(microseconds=sum(waits)) < timedelta(days=3)
    assert ended(503, attempt=19).kind == "again"
    assert ended(503, attempt=20).kind == "dead"


def test_nobody_comes_earlier_than_was_asked_and_not_all_at_once() -> None:
    delays = {ended(429, retry="60", draw=draw / 10).delay for draw in range(10)}
    assert len(delays) == 10
    assert min(delays) == 60 * 1_000_000
    assert max(delays) < 70 * 1_000_000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        (" 17 ", 17.0),
        ("Thu, 01 Jan 2026 00:01:00 GMT", 60.0),
        ("Wed, 31 Dec 2025 23:59:00 GMT", 0.0),
        ("Thu, 01 Jan 2026 01:01:00 +0100", 60.0),
        ("Thursday, 01-Jan-26 00:01:00 GMT", 60.0),
        ("", None),
        ("1.5", None),
        ("٣", None),
        ("1234567890", None),
        ("Thu, 99 Jan 2026 00:00:00 GMT", None),
        ("x" * 10_000, None),
    ],
)
def test_a_pause_is_read_as_seconds_or_as_a_date(text: str, seconds: float | None) -> None:
    assert pause_of(text, to_microseconds(NOW)) == seconds


def test_a_wish_for_more_than_a_day_is_no_wish() -> None:
    assert ended(503, retry=str(LONGEST_PAUSE)).pause == LONGEST_PAUSE * 1_000_000
    assert ended(503, retry=str(LONGEST_PAUSE + 1)).pause is None


@every_store
async def test_the_attempts_of_a_message_are_what_the_caller_says(
    case: Case, place: DatabaseOf
) -> None:
    async with an_office(case, place) as office:
        office.there.answer("/hook", 500)
        once = await office.send(attempts=1)
        usual = await office.send()
        assert (await office.relay()).dead == 1
        assert office.message(once.id).state == "dead"
        assert office.message(usual.id).state == "ready"
        with pytest.raises(duly.errors.UsageError):
            await office.send(attempts=1001)
