"""One message is looked at by its id: what it waits for, how often it failed, and why."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import duly
from tests.outbox.offices import STORES, an_office, relaying

if TYPE_CHECKING:
    from tests.conftest import HandClock
    from tests.worker.subjects import Case, DatabaseOf

every_store = pytest.mark.parametrize("case", STORES, ids=lambda case: case.name)
on_sqlite = pytest.mark.parametrize("case", STORES[:1], ids=lambda case: case.name)
HOUR = timedelta(hours=1)
SECRET = "whsec_" + "A" * 32


def sms(message: duly.types.Message) -> duly.Dead:
    return duly.Dead("no such number")


async def test_a_message_is_found_in_every_state_until_it_is_sent(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with an_office(case, place, clock) as office:
        office.there.answer("/hook", 503, times=1)
        staged = await office.send(data=b"canary-body", headers={"X-Shop": "7"}, attempts=4)
        at_first = await office.call("outbox.find", staged.id.upper())
        assert (at_first.id, at_first.state, at_first.failure) == (staged.id, "ready", None)
        assert (at_first.method, at_first.url) == ("POST", office.url("/hook"))
        assert (at_first.body, at_first.headers["X-Shop"]) == (b"canary-body", "7")
        assert at_first.created_at == at_first.run_at == clock()
        assert (at_first.leased_until, at_first.dead_at) == (None, None)
        assert "canary" not in repr(at_first)
        await office.relay()
        failed = await office.call("outbox.find", staged.id)
        assert (failed.state, failed.attempts, failed.max_attempts) == ("waiting", 1, 4)
        assert failed.run_at > clock()
        assert failed.failure.message == "the receiver answered 503"
        clock.advance(HOUR)
        assert (await office.call("outbox.find", staged.id)).state == "ready"
        assert (await office.relay()).sent == 1
        assert await office.call("outbox.find", staged.id) is None


@every_store
async def test_a_message_that_is_on_its_way_or_dead_says_so(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with an_office(case, place, clock) as office:
        let_go = office.there.hold("/hook", 410)
        staged = await office.send()
        async with relaying(office):
            await asyncio.to_thread(office.there.wait_for, 1)
            leased = await office.call("outbox.find", staged.id)
            let_go.set()
        assert (leased.state, leased.attempts, leased.dead_at) == ("leased", 0, None)
        assert leased.leased_until > clock()
        dead = await office.call("outbox.find", staged.id)
        assert (dead.state, dead.dead_at, dead.leased_until) == ("dead", clock(), None)


async def test_an_id_that_is_none_is_refused_and_one_of_nobody_is_not_found(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with an_office(case, place, clock) as office:
        assert await office.call("outbox.find", "00000000-0000-7000-8000-000000000000") is None
        with pytest.raises(duly.errors.UsageError, match="the id of a message must look like"):
            await office.call("outbox.find", "0198c3a2")


@on_sqlite
@pytest.mark.parametrize("status", [401, 403])
async def test_who_was_not_known_is_told_whether_the_message_was_signed(
    case: Case, place: DatabaseOf, clock: HandClock, status: int
) -> None:
    async with an_office(case, place, clock) as office:
        office.app.signer("ours", secret=SECRET)
        office.there.answer("/hook", status)
        signed, bare = await office.send(sign="ours"), await office.send()
        assert (await office.relay()).dead == 2
        for staged, told in ((signed, "signed by ours"), (bare, "not signed")):
            found = await office.call("outbox.find", staged.id)
            assert (
                found.failure.message == f"the receiver answered {status} (the message was {told})"
            )


@on_sqlite
async def test_a_destination_is_named_as_well_by_the_address_of_a_message(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with an_office(case, place, clock) as office:
        office.app.transport("sms")(sms)
        office.there.answer("/gone", 410)
        by_web, by_sms = await office.send("/gone"), await office.send("sms:+43")
        assert (await office.relay()).dead == 2
        for address, staged in ((office.url(f"/{'x' * 1200}?y=1"), by_web), ("sms:+44", by_sms)):
            [letter] = await office.call("outbox.dead", destination=address)
            assert letter.id == staged.id
        done = await office.call("outbox.replay", destination=office.url("/other"))
        assert done.ids == (by_web.id,)
        with pytest.raises(duly.errors.UsageError, match="has a user or a password in it"):
            await office.call("outbox.dead", destination="https://ann:secret@example.com/")


@on_sqlite
async def test_a_receiver_that_asks_for_a_pause_is_not_said_to_keep_failing(
    case: Case, place: DatabaseOf, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with an_office(case, place, clock) as office:
        office.there.answer("/hook", 429, headers={"Retry-After": "7"})
        await office.send()
        with caplog.at_level(logging.WARNING, logger="duly"):
            assert (await office.relay()).retried == 1
        told = f"{office.there.url} asked for a pause (Retry-After): nothing is sent there for"
        assert told in caplog.text
        assert "keeps failing" not in caplog.text
