"""The end of a relay, by request or by force: nothing is lost, and nothing is counted in vain."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duly.outbox.lease import LOST_RELAY, MOST_RESCUES
from duly.relay.settings import RelaySettings
from tests.outbox.offices import STORES, an_office, ended
from tests.worker.subjects import seen

if TYPE_CHECKING:
    from duly.relay.relay import Relay
    from duly.relay.stats import Relayed
    from tests.conftest import HandClock
    from tests.outbox.offices import Office
    from tests.worker.subjects import Case, DatabaseOf

every_store = pytest.mark.parametrize("case", STORES, ids=lambda case: case.name)
COUNT, RUNNING = 12, 2


class Started:
    """A relay that runs beside the test."""

    def __init__(self, office: Office, grace: timedelta = timedelta(seconds=20)) -> None:
        settings = RelaySettings(concurrency=4, per_destination=RUNNING, grace=grace)
        self.relay: Relay = office.app.process.relay(settings)
        self.end = asyncio.ensure_future(asyncio.to_thread(asyncio.run, ended(office, self.relay)))

    async def ends(self) -> Relayed:
        """What it did."""
        async with asyncio.timeout(20):
            return await self.end


def untouched(office: Office) -> list[tuple[str, int, int]]:
    """The state and the counters of what is left, of those that nobody holds."""
    assert all(row.token is None for row in office.messages())
    return sorted(row.counted for row in office.messages())


async def all_arrive(office: Office, staged: list[str], *, resent: int) -> None:
    """Another relay sends what is left, and in the end everything has arrived."""
    relayed = await office.relay()
    assert (relayed.resent, relayed.lost, relayed.dead) == (resent, 0, 0)
    assert office.messages() == []
    keys = [one.headers["idempotency-key"] for one in office.there.requests]
    assert set(keys) == set(staged)
    assert len(keys) == len(staged) + resent


@every_store
async def test_a_relay_that_is_told_to_stop_lets_what_is_on_its_way_arrive(
    case: Case, place: DatabaseOf
) -> None:
    async with an_office(case, place) as office:
        released = office.there.hold("/hook")
        staged = await office.send_many(COUNT)
        started = Started(office)
        await asyncio.to_thread(office.there.wait_for, RUNNING)
        started.relay.stop()
        await seen(lambda: sum(row.state == "leased" for row in office.messages()) == RUNNING)
        assert not started.end.done()
        released.set()
        relayed = await started.ends()
        assert (relayed.sent, relayed.retried, relayed.lost) == (RUNNING, 0, 0)
        assert untouched(office) == [("ready", 0, 0)] * (COUNT - RUNNING)
        await all_arrive(office, staged, resent=0)


@every_store
@pytest.mark.parametrize("how", ["stop_now", "out of grace"])
async def test_a_relay_that_must_stop_now_gives_back_what_may_have_arrived_with_a_note_of_that(
    case: Case, place: DatabaseOf, how: str
) -> None:
    async with an_office(case, place) as office:
        released = office.there.hold("/hook")
        staged = await office.send_many(COUNT)
        started = Started(office, timedelta(seconds=0.1 if how == "out of grace" else 20))
        await asyncio.to_thread(office.there.wait_for, RUNNING)
        if how == "stop_now":
            started.relay.stop_now()
        else:
            started.relay.stop()
        relayed = await started.ends()
        released.set()
        assert (relayed.sent, relayed.lost, relayed.dead) == (0, 0, 0)
        left = [("ready", 0, 0)] * (COUNT - RUNNING) + [("ready", 0, 1)] * RUNNING
        assert untouched(office) == left
        await all_arrive(office, staged, resent=RUNNING)


@every_store
async def test_a_message_that_is_out_of_rescues_when_its_relay_must_stop_is_a_dead_letter(
    case: Case, place: DatabaseOf
) -> None:
    async with an_office(case, place) as office:
        released = office.there.hold("/hook")
        staged = await office.send()
        office.records.run(f"UPDATE duly_outbox SET rescues = {MOST_RESCUES - 2}")
        for arrived, rescues in enumerate((MOST_RESCUES - 1, MOST_RESCUES), 1):
            started = Started(office)
            await asyncio.to_thread(office.there.wait_for, arrived)
            started.relay.stop_now()
            relayed = await started.ends()
            dead = rescues == MOST_RESCUES
            state = "dead" if dead else "ready"
            assert (relayed.dead, relayed.retried) == (int(dead), int(not dead))
            assert office.message(staged.id).counted == (state, 0, rescues)
        released.set()
        [letter] = await office.call("outbox.dead")
        assert (letter.failure.type, letter.failure.message) == (
            "duly.errors.LeaseLost",
            LOST_RELAY,
        )


@pytest.mark.parametrize(
    "case", [case for case in STORES if case.colour == "async"], ids=lambda case: case.name
)
async def test_a_relay_that_is_cancelled_gives_everything_back(
    case: Case, place: DatabaseOf
) -> None:
    async with an_office(case, place) as office:
        released = office.there.hold("/hook")
        staged = await office.send_many(COUNT)
        running = asyncio.create_task(
            office.app.aio.relay(until="stopped", per_destination=RUNNING, concurrency=4)
        )
        await asyncio.to_thread(office.there.wait_for, RUNNING)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        assert running.cancelled()
        released.set()
        left = [("ready", 0, 0)] * (COUNT - RUNNING) + [("ready", 0, 1)] * RUNNING
        assert untouched(office) == left
        await all_arrive(office, staged, resent=RUNNING)


@every_store
async def test_a_relay_that_was_stopped_before_it_began_takes_nothing(
    case: Case, place: DatabaseOf
) -> None:
    async with an_office(case, place) as office:
        staged = await office.send_many(3)
        relay = office.app.process.relay(RelaySettings())
        relay.stop()
        relayed = await relay.run("stopped")
        assert (relayed.sent, relayed.retried) == (0, 0)
        assert untouched(office) == [("ready", 0, 0)] * 3
        assert {row.epoch for row in office.messages()} == {0}
        relay.stop()  # it has ended, and nothing happens
        await all_arrive(office, staged, resent=0)


@every_store
async def test_what_a_lost_relay_had_is_sent_by_another_and_the_first_changes_nothing(
    case: Case, place: DatabaseOf, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with an_office(case, place, clock) as office:
        released = office.there.hold("/hook", times=1)
        staged = await office.send()
        started = Started(office)
        await asyncio.to_thread(office.there.wait_for, 1)
        first = office.message(staged.id)
        # The lease lasts for the longest call and half a minute; then the wait of a first rescue.
        clock.advance(timedelta(minutes=2))
        rescued = (await office.relay()).rescued
        clock.advance(timedelta(seconds=1))
        other = await office.relay()
        # Whoever looked first has taken it back: the one that lost it may notice that itself.
        assert rescued + started.relay.relayed.rescued == 1
        assert first.state == "leased"
        await seen(lambda: bool(office.history(staged.id)))
        before = office.everything()
        with caplog.at_level(logging.WARNING, logger="duly"):
            started.relay.stop()
            released.set()
            relayed = await started.ends()
        assert office.everything() == before
        assert other.sent + relayed.sent == 1
        assert other.resent + relayed.resent == 1
        assert relayed.lost == 1
        assert "was lost: another relay sends it, with the same id" in caplog.text
        assert office.history(staged.id) == [(office.there.url, "sent", 2)]
        keys = [one.headers["idempotency-key"] for one in office.there.requests]
        assert keys == [staged.id, staged.id]
        counts = office.counts()
        assert (counts["lost"], counts["rescued"], counts["sent"]) == (1, 1, 1)


@every_store
@pytest.mark.parametrize("part", ["epoch", "token"])
@pytest.mark.parametrize("status", [204, 500, 404])
async def test_an_end_under_an_old_fence_changes_nothing_and_is_counted_as_lost(
    case: Case, place: DatabaseOf, part: str, status: int
) -> None:
    newer = "epoch + 1" if part == "epoch" else token_in(case)
    async with an_office(case, place) as office:
        released = office.there.hold("/hook", status)
        await office.send()
        started = Started(office)
        await asyncio.to_thread(office.there.wait_for, 1)
        office.records.run(f"UPDATE duly_outbox SET {part} = {newer}")
        before = office.everything()
        started.relay.stop()
        released.set()
        relayed = await started.ends()
        assert (relayed.sent, relayed.retried, relayed.dead, relayed.lost) == (0, 0, 0, 1)
        assert office.everything() == before
        assert office.counts() == {"lost": 1}


def token_in(case: Case) -> str:
    """Somebody else's token, as the store writes it."""
    return "decode(repeat('aa', 16), 'hex')" if case.kind == "postgres" else "zeroblob(16)"


@every_store
async def test_a_relay_sends_what_is_staged_while_it_waits(case: Case, place: DatabaseOf) -> None:
    async with an_office(case, place) as office:
        started = Started(office)
        for number in range(3):
            await office.send()
            await asyncio.to_thread(office.there.wait_for, number + 1)
        await seen(lambda: office.messages() == [])
        started.relay.stop()
        assert (await started.ends()).sent == 3
