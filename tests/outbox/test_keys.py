"""A key names a message: while it is known at an address, there is one."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import duly
from duly.core.defaults import WAIT
from duly.core.onestep import finish
from duly.outbox.lease import DestinationDemand, take
from tests.outbox.offices import an_office

if TYPE_CHECKING:
    from tests.conftest import HandClock
    from tests.outbox.offices import Office
    from tests.worker.subjects import Case, DatabaseOf

DAY = timedelta(hours=24)
MOMENT = timedelta(microseconds=1)


def ids(office: Office) -> set[str]:
    return {row.id for row in office.messages()}


async def pruned(office: Office) -> int:
    """Forget what may be forgotten."""
    if office.awaited:
        return await duly.aio.prune(office.app.store)
    return duly.prune(office.app.store)


async def test_a_known_key_leads_to_the_first_message(case: Case, place: DatabaseOf) -> None:
    async with an_office(case, place) as office:
        first = await office.send(json=1, key="paid-7")
        again = await office.send(json=2, key="paid-7")
        elsewhere = await office.send("/other", json=3, key="paid-7")
        another = await office.send(json=4, key="paid-8")
        assert (first.first, first.duplicate) == (True, False)
        assert (again.id, again.first, again.duplicate) == (first.id, False, True)
        assert elsewhere.first
        assert another.first
        assert ids(office) == {first.id, elsewhere.id, another.id}
        await office.relay()
        arrived = {(one.path, one.body) for one in office.there.requests}
        assert arrived == {("/hook", b"1"), ("/other", b"3"), ("/hook", b"4")}
        keys = {one.headers["idempotency-key"] for one in office.there.requests}
        assert len(keys) == 3  # one service may see both addresses, and must not mix them up


async def test_one_key_twice_in_one_transaction_is_one_message(
    case: Case, place: DatabaseOf
) -> None:
    async with an_office(case, place) as office:
        [first, again, third] = await office.send_many(3, key="paid-7")
        assert first == again == third
        assert ids(office) == {first}


async def test_a_key_is_known_until_its_window_is_over(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with an_office(case, place, clock) as office:
        first = await office.send(key="paid-7")
        assert (await office.relay()).sent == 1
        clock.advance(DAY - MOMENT)
        assert not (await office.send(key="paid-7")).first
        assert ids(office) == set()
        clock.advance(MOMENT)
        second = await office.send(key="paid-7")
        assert second.first
        assert second.id != first.id
        assert not (await office.send(key="paid-7")).first
        assert (await office.relay()).sent == 1


async def test_the_window_is_what_the_caller_says(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with an_office(case, place, clock) as office:
        minute = timedelta(minutes=1)
        await office.send(key="paid-7", window=minute)
        await office.relay()
        clock.advance(minute - MOMENT)
        assert not (await office.send(key="paid-7", window=minute)).first
        clock.advance(MOMENT)
        assert (await office.send(key="paid-7", window=minute)).first


async def test_a_message_that_still_has_to_be_sent_keeps_its_key_beyond_the_window(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with an_office(case, place, clock) as office:
        first = await office.send(key="paid-7", delay=3 * DAY)
        clock.advance(2 * DAY)
        again = await office.send(key="paid-7")
        assert (again.id, again.first) == (first.id, False)
        clock.advance(DAY)
        assert (await office.relay()).sent == 1
        assert (await office.send(key="paid-7")).first


async def test_the_key_of_an_unsent_message_is_never_pruned(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with an_office(case, place, clock) as office:
        office.there.answer("/refused", 410)
        unsent = await office.send("/later", key="paid-7", delay=3 * DAY)
        await office.send("/sent", key="paid-7")
        dead = await office.send("/refused", key="paid-7")
        await office.relay()
        clock.advance(2 * DAY)
        assert await pruned(office) == 2
        assert (await office.send("/later", key="paid-7")).id == unsent.id
        assert (await office.send("/sent", key="paid-7")).first
        # What is dead waits for a person; whoever stages it anew has decided.
        assert (await office.send("/refused", key="paid-7")).id != dead.id


async def test_within_its_window_the_key_of_a_dead_message_is_known(
    case: Case, place: DatabaseOf
) -> None:
    async with an_office(case, place) as office:
        office.there.answer("/refused", 410)
        dead = await office.send("/refused", key="paid-7")
        assert (await office.relay()).dead == 1
        again = await office.send("/refused", key="paid-7")
        assert (again.id, again.first) == (dead.id, False)


async def test_a_key_that_was_rolled_back_is_free(case: Case, place: DatabaseOf) -> None:
    async with an_office(case, place) as office:
        with pytest.raises(duly.errors.UsageError):
            await office.send_all(["/hook", "nowhere:"], key="paid-7")
        assert ids(office) == set()
        assert (await office.send(key="paid-7")).first


@pytest.mark.promise("I11")
async def test_every_attempt_and_every_repeat_carries_the_key_of_the_first(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with an_office(case, place, clock) as office:
        office.there.answer("/hook", 503, times=2)
        staged = await office.send(key="paid-7", data=b"\x00\x01 same")
        for _ in range(3):
            assert (await office.send(key="paid-7")).id == staged.id
            await office.relay()
            clock.advance(DAY / 8)
        arrived = office.there.requests
        assert {one.headers["idempotency-key"] for one in arrived} == {staged.id}
        assert [one.body for one in arrived] == [b"\x00\x01 same"] * 3


@pytest.mark.parametrize("prunes", [False, True])
async def test_a_message_on_its_way_keeps_its_key_beyond_the_window(
    case: Case, place: DatabaseOf, clock: HandClock, prunes: bool
) -> None:
    async with an_office(case, place, clock) as office:
        first = await office.send(key="paid-7")
        wants = [DestinationDemand(office.message(first.id).destination, 1)]
        runner = office.app.store.sync_runner
        week = 7 * DAY // timedelta(microseconds=1)
        assert finish(runner.run(lambda session: take(session, wants, week), wait=WAIT))
        clock.advance(2 * DAY)
        if prunes:
            await pruned(office)
        again = await office.send(key="paid-7")
        assert (again.id, again.first) == (first.id, False)
