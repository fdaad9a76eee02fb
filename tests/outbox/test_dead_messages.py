"""Dead letters of the outbox: found, replayed with the id and key they had, or discarded."""

from __future__ import annotations

import asyncio
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.core.defaults import WAIT
from duly.core.onestep import finish
from duly.ledger import replay
from duly.outbox.lease import MOST_RESCUES, DestinationDemand, rescue, take
from duly.outbox.lease import stage_due as due
from tests.outbox.offices import STORES, an_office
from tests.outbox.receivers import Receiver

if TYPE_CHECKING:
    from tests.conftest import HandClock
    from tests.outbox.offices import Office
    from tests.worker.subjects import Case, DatabaseOf

every_store = pytest.mark.parametrize("case", STORES, ids=lambda case: case.name)
MINUTE = timedelta(minutes=1)


async def given_up(office: Office, clock: HandClock, *places: str) -> list[str]:
    """One dead message for each, a minute apart; their ids, the earliest first."""
    ids = []
    for to in places:
        if to.startswith("/"):
            office.there.answer(to, 410)
        ids.append((await office.send(to)).id)
        assert (await office.relay()).dead == 1
        clock.advance(MINUTE)
    return ids


async def found(office: Office, *args: Any, **filters: Any) -> list[str]:
    """The ids of dead letters."""
    return [letter.id for letter in await office.call("outbox.dead", *args, **filters)]


def states(office: Office) -> dict[str, str]:
    return {row.id: row.state for row in office.messages()}


@every_store
async def test_a_dead_letter_tells_what_it_was_and_why(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with an_office(case, place, clock) as office:
        office.app.signer("ours", secret="whsec_" + "A" * 32)
        office.there.answer("/gone", 410)
        began = clock()
        staged = await office.send(
            "/gone", data=b"\x00body", headers={"X-Shop": "7"}, sign="ours", key="paid-7",
            method="PUT", attempts=4,
        )  # fmt: skip
        await office.relay()
        [letter] = await office.call("outbox.dead")
        assert (letter.id, letter.destination) == (staged.id, office.there.url)
        assert (letter.method, letter.url) == ("PUT", office.url("/gone"))
        assert (letter.body, letter.signer) == (b"\x00body", "ours")
        assert letter.headers["X-Shop"] == "7"
        assert (letter.attempts, letter.rescues, letter.max_attempts) == (1, 0, 4)
        assert (letter.created_at, letter.dead_at) == (began, began)
        assert letter.failure.type == "duly.Answered"
        assert letter.failure.message == "the receiver answered 410"
        assert "body" not in repr(letter)
        assert "X-Shop" not in repr(letter)


async def test_dead_letters_are_found_by_id_destination_and_time_the_latest_first(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    with Receiver() as other:
        other.answer("/gone", 410)
        async with an_office(case, place, clock, other) as office:
            start = clock()
            a, b, c = await given_up(office, clock, "/a", f"{other.url}/gone", "/c")
            await office.send("/fine", delay=MINUTE)
            assert await found(office) == [c, b, a]
            assert await found(office, b) == [b]
            assert await found(office, b.upper()) == [b]
            assert await found(office, destination=other.url) == [b]
            assert await found(office, destination=office.there.url) == [c, a]
            assert await found(office, destination="https://nobody.example") == []
            assert await found(office, since=start + MINUTE) == [c, b]
            assert await found(office, until=start + MINUTE) == [a]
            assert await found(office, since=start + MINUTE, until=start + 2 * MINUTE) == [b]
            assert await found(office, limit=2) == [c, b]
            assert await found(office, "00000000-0000-7000-8000-000000000000") == []


async def test_a_replayed_message_is_sent_with_the_id_and_the_key_it_had(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with an_office(case, place, clock) as office:
        office.there.answer("/hook", 410, times=1)
        staged = await office.send(key="paid-7", data=b"same")
        await office.relay()
        done = await office.call("outbox.replay", staged.id)
        assert (done.ids, done.dry_run) == ((staged.id,), False)
        assert office.message(staged.id).counted == ("ready", 0, 0)
        assert (await office.relay()).sent == 1
        first, second = office.there.requests
        assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
        assert first.body == second.body == b"same"
        assert (await office.call("outbox.replay", staged.id)).ids == ()


@every_store
async def test_a_replayed_message_has_all_its_attempts_before_it(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with an_office(case, place, clock) as office:
        office.there.answer("/hook", 500)
        staged = await office.send(attempts=2)
        for _ in range(2):
            for counted in (("ready", 1, 0), ("dead", 2, 0)):
                await office.relay()
                assert office.message(staged.id).counted == counted
                clock.advance(timedelta(hours=1))
            await office.call("outbox.replay", staged.id)
        assert len(office.there.requests) == 4


@every_store
async def test_a_replay_takes_what_is_meant_and_leaves_the_rest(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    with Receiver() as other:
        other.answer("/gone", 410)
        async with an_office(case, place, clock, other) as office:
            start = clock()
            a, b, c, d = await given_up(office, clock, "/a", f"{other.url}/gone", "/c", "/d")
            ready = dict.fromkeys((a, b, c, d), "dead")
            assert states(office) == ready
            asked: list[tuple[dict[str, Any], list[str]]] = [
                ({"destination": other.url}, [b]),
                ({"since": start + 3 * MINUTE}, [d]),
                ({"until": start + MINUTE}, [a]),
                ({"all": True}, [c]),
            ]
            for options, meant in asked:
                before = office.everything()
                would = await office.call("outbox.replay", **options, dry_run=True)
                assert office.everything() == before
                did = await office.call("outbox.replay", **options)
                assert (would.ids, would.dry_run) == (did.ids, True)
                assert list(did.ids) == meant
                ready |= dict.fromkeys(meant, "ready")
                assert states(office) == ready
            assert (await office.call("outbox.replay", all=True)).ids == ()


async def test_a_replay_of_everything_must_be_asked_for(case: Case, place: DatabaseOf) -> None:
    async with an_office(case, place) as office:
        for mistake in (
            {},
            {"all": True, "destination": "mail"},
            {"all": "yes"},
            {"all": True, "dry_run": 1},
            {"all": True, "rate": 0},
            {"destination": 7},
            {"destination": ""},
        ):
            with pytest.raises(duly.errors.UsageError):
                await office.call("outbox.replay", **mistake)
        for verb in ("replay", "discard", "dead"):
            with pytest.raises(duly.errors.UsageError, match="the id of a message"):
                await office.call(f"outbox.{verb}", "not-an-id")


@every_store
async def test_a_replay_with_a_rate_spreads_the_messages_in_the_order_they_died(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with an_office(case, place, clock) as office:
        ids = await given_up(office, clock, "/a", "/b", "/c")
        now = clock()
        done = await office.call("outbox.replay", all=True, rate=0.5)
        assert list(done.ids) == ids
        for place_in_line, id in enumerate(ids):
            expected = now + place_in_line * timedelta(seconds=2)
            assert office.message(id).run_at == expected
        for to in ("/a", "/b", "/c"):
            office.there.answer(to)
        sent = []
        for _ in range(3):
            sent.append((await office.relay()).sent)
            clock.advance(timedelta(seconds=2))
        assert sent == [1, 1, 1]
        assert [one.path for one in office.there.requests[3:]] == ["/a", "/b", "/c"]


async def test_two_who_replay_at_once_replay_each_message_once(
    case: Case, place: DatabaseOf
) -> None:
    async with an_office(case, place) as office:
        office.there.answer("/hook", 410)
        ids = await office.send_many(60)
        assert (await office.relay()).dead == 60
        both = await asyncio.gather(
            *(office.call("outbox.replay", all=True, rate=1_000_000) for _ in range(4))
        )
        replayed = [id for done in both for id in done.ids]
        assert sorted(replayed) == sorted(ids)
        office.there.answer("/hook")
        assert (await office.relay()).sent == 60


@every_store
async def test_a_replay_of_more_than_a_chunk_leaves_none_out(
    case: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "CHUNK", 7)
    async with an_office(case, place) as office:
        ids = await office.send_many(21)
        # All at one moment: the end of a chunk is not the end of a moment.
        moment = "(SELECT min(created_at) FROM duly_outbox)"
        office.records.run(f"UPDATE duly_outbox SET state = 'dead', dead_at = {moment}")
        done = await office.call("outbox.replay", all=True)
        assert len(done.ids) == len(set(done.ids)) == 21
        assert set(done.ids) == set(ids)
        assert {row.state for row in office.messages()} == {"ready"}


async def test_a_discarded_message_is_gone_for_good_and_the_history_says_so(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with an_office(case, place, clock) as office:
        [dead, kept] = await given_up(office, clock, "/a", "/b")
        ready = (await office.send("/later", delay=MINUTE)).id
        assert await office.call("outbox.discard", dead) is True
        assert await office.call("outbox.discard", dead) is False
        assert await office.call("outbox.discard", ready) is False
        assert states(office) == {kept: "dead", ready: "ready"}
        assert office.history(dead) == [(office.there.url, "discarded", 1)]
        assert office.history(ready) == []
        assert (await office.call("outbox.replay", dead)).ids == ()


@every_store
async def test_of_two_who_discard_and_replay_at_once_one_does(
    case: Case, place: DatabaseOf
) -> None:
    async with an_office(case, place) as office:
        office.there.answer("/hook", 410)
        [id] = await office.send_many(1)
        await office.relay()
        gone, done = await asyncio.gather(
            office.call("outbox.discard", id), office.call("outbox.replay", id)
        )
        assert gone != bool(done.ids)
        assert (states(office) == {}) == gone


@every_store
async def test_who_discards_what_somebody_else_has_locked_is_told_that_it_is_held(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with an_office(case, place, clock) as office:
        [dead] = await given_up(office, clock, "/a")
        with closing(office.records.place.connect()) as other:
            other.execute("BEGIN IMMEDIATE" if office.records.place.is_sqlite else "BEGIN")
            other.execute("UPDATE duly_outbox SET attempts = attempts")
            with pytest.raises(duly.errors.InProgress):
                await office.call("outbox.discard", dead)
            other.execute("ROLLBACK")
        assert await office.call("outbox.discard", dead) is True


async def test_nobody_replays_or_discards_inside_an_open_transaction(
    case: Case, place: DatabaseOf
) -> None:
    async with an_office(case, place) as office:
        id = "00000000-0000-7000-8000-000000000000"
        outbox: Any = office.app.aio.outbox if office.awaited else office.app.outbox

        async def ask() -> None:
            with pytest.raises(duly.errors.UsageError, match="outside of the handler"):
                await office.waited(outbox.replay(id))
            with pytest.raises(duly.errors.UsageError, match="outside of the handler"):
                await office.waited(outbox.discard(id))

        if office.awaited:
            async with office.app.aio.transaction():
                await ask()
        else:
            with office.app.transaction():
                await ask()


async def test_the_stats_count_by_destination_and_in_all(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    with Receiver() as other:
        async with an_office(case, place, clock, other) as office:
            assert (await office.call("outbox.stats")).destinations == {}
            await given_up(office, clock, "/gone")
            await office.send_many(3)
            await office.send("/later", delay=MINUTE)
            await office.send(f"{other.url}/hook", delay=MINUTE)
            clock.advance(timedelta(seconds=30))
            stats = await office.call("outbox.stats")
            assert set(stats.destinations) == {office.there.url, other.url}
            ours, theirs = stats.destinations[office.there.url], stats.destinations[other.url]
            assert (ours.ready, ours.waiting, ours.leased, ours.dead) == (3, 1, 0, 1)
            assert (theirs.ready, theirs.waiting, theirs.leased, theirs.dead) == (0, 1, 0, 0)
            assert (ours.oldest, theirs.oldest) == (timedelta(seconds=30), None)
            assert (stats.ready, stats.waiting, stats.leased, stats.dead) == (3, 2, 0, 1)
            clock.advance(MINUTE)
            stats = await office.call("outbox.stats")
            assert (stats.ready, stats.waiting) == (5, 0)
            office.records.run("UPDATE duly_outbox SET state = 'leased' WHERE state = 'ready'")
            assert (await office.call("outbox.stats")).leased == 5


@every_store
@pytest.mark.parametrize("days", [-3, 0, 3])
async def test_a_message_that_nobody_can_send_is_dead_a_day_after_it_was_first_due(
    case: Case, place: DatabaseOf, clock: HandClock, days: int
) -> None:
    """However long before that it was staged, and again a day after each replay."""
    async with an_office(case, place, clock) as office:
        office.app.signer("books", secret="whsec_" + "A" * 32)
        staged = await office.send(sign="books", at=clock() + timedelta(days=days))
        began = office.message(staged.id).created_at
        # As in a relay that was started before there was one.
        office.app.registries.outbox.signers.clear()
        clock.advance(timedelta(days=max(days, 0)))
        for _ in range(2):
            for hours in (12, 12, 1):
                assert (await office.relay()).retried == 1
                assert office.message(staged.id).counted == ("ready", 0, 0)
                clock.advance(timedelta(hours=hours))
            assert (await office.relay()).dead == 1
            assert office.message(staged.id).created_at == began
            await office.call("outbox.replay", staged.id)


@every_store
async def test_a_message_that_is_out_of_rescues_is_a_dead_letter_that_says_so(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with an_office(case, place, clock) as office:
        staged = await office.send()
        past = "0" if case.kind != "postgres" else "'2000-01-01'"
        office.records.run(
            f"UPDATE duly_outbox SET state = 'leased', rescues = 19, lease_until = {past}"
        )
        relayed = await office.relay()
        assert (relayed.rescued, relayed.sent) == (1, 0)
        assert office.message(staged.id).counted == ("dead", 0, 20)
        [letter] = await office.call("outbox.dead")
        assert letter.failure.type == "duly.errors.LeaseLost"
        assert letter.dead_at == clock()
        await office.call("outbox.replay", staged.id)
        assert (await office.relay()).sent == 1


async def test_a_replayed_message_has_all_its_rescues_before_it(
    case: Case, place: DatabaseOf, clock: HandClock
) -> None:
    async with an_office(case, place, clock) as office:
        staged = await office.send()
        runner, minute = office.app.store.sync_runner, MINUTE // timedelta(microseconds=1)
        wants = [DestinationDemand(office.message(staged.id).destination, 1)]
        for _ in range(MOST_RESCUES):
            finish(runner.run(due, wait=WAIT))
            assert finish(runner.run(lambda session: take(session, wants, minute), wait=WAIT))
            clock.advance(MINUTE)
            assert finish(runner.run(rescue, wait=WAIT))
            clock.advance(timedelta(hours=1))
        assert office.message(staged.id).counted == ("dead", 0, MOST_RESCUES)
        await office.call("outbox.replay", staged.id)
        assert office.message(staged.id).counted == ("ready", 0, 0)
