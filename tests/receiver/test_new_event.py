"""The first delivery of an event: remembered with its work, and only then acknowledged."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from tests.receiver.drivers import REMOTE, Request
from tests.receiver.senders import OTHER, PAID

if TYPE_CHECKING:
    from tests.conftest import HandClock
    from tests.receiver.subjects import Case, DatabaseOf


@pytest.mark.promise("I1", "I4")
async def test_the_first_delivery_is_accepted_with_its_claim_event_arrival_and_work(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with case.open(place, clock) as subject:
        shop = subject.source(now=clock)
        subject.on(shop.name, "invoice.*", "also")
        answer = await shop.send(PAID, id="evt_1")

        assert (answer.status, answer.json) == (200, {"status": "accepted", "event": "evt_1"})
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["content-length"] == str(len(answer.body))
        [event] = subject.records.events(shop.name)
        assert (event.event_id, event.type, event.flags) == ("evt_1", "invoice.paid", "")
        assert event.body == PAID
        assert event.fingerprint == hashlib.sha256(PAID).digest()
        assert subject.records.claims(shop.name) == ["evt_1"]
        assert subject.records.deliveries(shop.name) == {("evt_1", "accepted"): 1}
        assert shop.worked() == [("evt_1", "also"), ("evt_1", "handle")]


async def test_a_job_is_ready_at_once_with_the_attempts_of_a_webhook(
    stored: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with stored.open(place, clock) as subject:
        shop = subject.source(now=clock)
        await shop.send()
        [row] = subject.records.rows(
            "SELECT queue, state, priority, attempts, rescues, max_attempts, epoch, run_at ="
            f" received_at FROM duly_jobs AS job JOIN duly_events AS event ON event.id = job.event"
            f" WHERE source = '{shop.name}'"
        )

    assert tuple(row) == ("default", "ready", 0, 0, 0, 5, 0, True)


async def test_an_inline_handler_sees_the_whole_event(
    inline: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with inline.open(place, clock) as subject:
        shop = subject.source(now=clock, headers=["X-Shop"])
        body = b'{"type": "invoice.paid", "timestamp": "2025-12-31T23:00:00Z"}'
        await shop.send(body, id="evt_1", headers={"X-Shop": "eu", "X-Other": "no"})

    [event] = subject.seen
    assert (event.id, event.type, event.source) == ("evt_1", "invoice.paid", shop.name)
    assert (event.tenant, event.body, event.json["type"]) == (None, body, "invoice.paid")
    assert event.received_at == clock.moment
    assert event.time.isoformat() == "2025-12-31T23:00:00+00:00"
    assert event.headers["x-shop"] == "eu"
    assert "x-other" not in event.headers


async def test_the_headers_that_were_asked_for_are_kept_and_no_secret_ever(
    stored: Case, place: DatabaseOf, clock: HandClock
) -> None:
    secrets = {"Authorization": "Bearer one", "Cookie": "two", "X-Gitlab-Token": "the one seed"}
    async with stored.open(place, clock) as subject:
        shop = subject.source("gitlab", now=clock, secret="the one seed", headers=["X-Shop-Domain"])
        kept = {
            "User-Agent": "GitLab/17",
            "Content-Type": "application/json",
            "X-Gitlab-Event": "Push Hook",
            "Idempotency-Key": "key_1",
            "X-Shop-Domain": "shop.example",
        }
        request = Request(f"/{shop.name}", b"{}", secrets | kept | {"X-Forwarded-For": "::1"})
        answer = await subject.ask(request)
        [event] = subject.records.events(shop.name)
        [row] = subject.records.rows(
            f"SELECT secret, remote FROM duly_events WHERE source = '{shop.name}'"
        )

    assert answer.said == "accepted"
    assert event.headers == {name.lower(): value for name, value in kept.items()}
    assert row[1] == REMOTE
    assert "the one seed" not in str(row)


@pytest.mark.promise("I5")
async def test_a_retry_is_a_duplicate_and_leaves_everything_as_it_was(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with case.open(place, clock) as subject:
        shop = subject.source(now=clock)
        await shop.send(id="evt_1")
        before, worked = subject.records.everything(), shop.worked()
        for _ in range(3):
            answer = await shop.send(id="evt_1")
            assert (answer.status, answer.json) == (200, {"status": "duplicate", "event": "evt_1"})

        assert subject.records.everything() == before
        assert shop.worked() == worked == [("evt_1", "handle")]
        assert len(subject.seen) == (case.way != "deferred")


async def test_two_events_are_two_events_and_each_is_worked_on(
    woven: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with woven.open(place, clock) as subject:
        shop = subject.source(now=clock)
        # The same body under two signed ids: the sender says that it happened twice.
        for body, id in ((PAID, "evt_1"), (OTHER, "evt_2"), (PAID, "evt_3")):
            assert (await shop.send(body, id=id)).said == "accepted"

        assert [one.event_id for one in subject.records.events(shop.name)] == [
            "evt_1", "evt_2", "evt_3",
        ]  # fmt: skip
        assert shop.worked() == [(f"evt_{number}", "handle") for number in (1, 2, 3)]


async def test_a_path_may_end_with_a_slash(
    deferred: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with deferred.open(place, clock) as subject:
        shop = subject.source(now=clock)
        assert (await shop.send(id="evt_1", path=f"/{shop.name}/")).said == "accepted"
        assert (await shop.send(id="evt_1")).said == "duplicate"


async def test_a_success_status_without_a_body_has_none(
    stored: Case, place: DatabaseOf, clock: HandClock
) -> None:
    body = (
        b'{"application_id":"1","type":1,"event":{"type":"A","timestamp":"2026-01-01T00:00:00Z"}}'
    )
    async with stored.open(place, clock) as subject:
        discord = subject.source("discord", now=clock)
        for _ in range(2):
            answer = await discord.send(body)
            assert (answer.status, answer.body) == (204, b"")
            # A client would take what follows for the beginning of the next answer.
            assert not {"content-length", "content-type"} & answer.headers.keys()
        assert len(discord.worked()) == 1
