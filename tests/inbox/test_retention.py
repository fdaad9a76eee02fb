"""What is kept goes when its time is over, but nothing of an event that has work left."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import psycopg
import pytest

import duly
from duly.cli.main import main
from duly.core.clock import MICROSECOND
from duly.core.onestep import finish
from duly.inbox.accept import receive_many
from duly.inbox.accept_one import receive_alone
from duly.inbox.counters import PendingCounters, flush
from duly.inbox.new_event import Flag, NewEvent, Status
from duly.inbox.retention import prune_bodies, prune_counters, prune_events
from tests.conftest import HandClock
from tests.support.inboxes import DAY, a_job, arrival, done, found

Colour = Literal["sync", "async"]
DAYS = timedelta(days=1)
BODIES, EVENTS = 14 * DAYS, 30 * DAYS


class Inbox:
    """A store in one colour, under a clock cranked by hand."""

    def __init__(self, store: duly.types.Store, clock: HandClock, colour: Colour) -> None:
        self.store = store
        self.clock = clock
        self.runner = store.sync_runner if colour == "sync" else store.async_runner

    async def receive(self, *arrivals: NewEvent) -> None:
        """Receive events that nobody had, and a copy of each."""
        outcomes = await receive_many(self.runner, arrivals)
        assert [outcome and outcome.status for outcome in outcomes] == [
            one.status for one in arrivals
        ]
        tally = PendingCounters()
        for one in arrivals:
            tally.note(one, "duplicate", 0)
            tally.count("shop", "duplicate")
        await flush(self.runner, tally)

    async def bodies(self, limit: int = 100) -> int:
        return await prune_bodies(self.runner, limit)

    async def events(self, limit: int = 100) -> int:
        return await prune_events(self.runner, limit)

    def held(self) -> dict[str, bool]:
        """The events that are there, and whether they still have their bodies."""
        rows = found(self.store, "SELECT event_id, body IS NOT NULL FROM duly_events ORDER BY 1")
        return {event: bool(whole) for event, whole in rows}

    def count(self, table: str) -> int:
        [(number,)] = found(self.store, f"SELECT count(*) FROM duly_{table}")
        return int(number)

    def finish_jobs(self) -> None:
        """As a worker leaves it: done jobs leave the table."""
        done(self.store, "DELETE FROM duly_jobs")


@pytest.fixture(params=["sqlite", "postgres", "memory"])
def url(request: pytest.FixtureRequest) -> str:
    names = {"sqlite": "sqlite_url", "postgres": "own_postgres_url"}
    if request.param == "memory":
        return "memory:"
    address: str = request.getfixturevalue(names[request.param])
    return address


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> Colour:
    chosen: Colour = request.param
    return chosen


@asynccontextmanager
async def an_inbox(url: str, colour: Colour) -> AsyncIterator[Inbox]:
    clock = HandClock()
    async with duly.store(url, clock=clock) as store:
        yield Inbox(store.open(), clock, colour)
        store.close()


def plain(event_id: str, **changes: Any) -> NewEvent:
    """An event without work left."""
    return arrival("shop", event_id, **{"jobs": ()} | changes)


async def test_a_body_goes_at_the_end_of_its_time_and_its_event_later(
    url: str, colour: Colour
) -> None:
    async with an_inbox(url, colour) as inbox:
        await inbox.receive(plain("a"), plain("b"))
        inbox.clock.advance(BODIES - MICROSECOND)
        assert (await inbox.bodies(), await inbox.events()) == (0, 0)
        inbox.clock.advance(MICROSECOND)
        assert (await inbox.bodies(), await inbox.events()) == (2, 0)
        assert inbox.held() == {"a": False, "b": False}
        assert await inbox.bodies() == 0
        # They are not looked through again before their own time.
        assert (
            found(inbox.store, "SELECT event_id FROM duly_events WHERE due_at = body_until") == []
        )
        inbox.clock.advance(EVENTS - BODIES - MICROSECOND)
        assert await inbox.events() == 0
        assert inbox.count("deliveries") == 2
        inbox.clock.advance(MICROSECOND)
        assert await inbox.events() == 2
        assert (inbox.held(), inbox.count("deliveries")) == ({}, 0)


async def test_what_is_left_of_a_stripped_event_still_says_what_it_was(
    url: str, colour: Colour
) -> None:
    async with an_inbox(url, colour) as inbox:
        first = plain("a", headers=b'{"user-agent": "x"}')
        await inbox.receive(first)
        query = "SELECT type, flags, headers, fingerprint, digest FROM duly_events"
        before = found(inbox.store, query)
        inbox.clock.advance(BODIES)
        await inbox.bodies()
        assert found(inbox.store, query) == before
        outcomes = await receive_many(inbox.runner, [plain("a"), plain("a", body=b"other")])
        told = [outcome and (outcome.status, outcome.body_differs) for outcome in outcomes]
        assert told[0] == (Status.DUPLICATE, False)


@pytest.mark.parametrize("state", ["ready", "leased", "dead"])
async def test_nothing_of_an_event_with_work_left_goes(
    state: str, url: str, colour: Colour
) -> None:
    async with an_inbox(url, colour) as inbox:
        await inbox.receive(arrival("shop", "busy", jobs=(a_job("x"), a_job("y"))), plain("idle"))
        done(inbox.store, f"UPDATE duly_jobs SET state = '{state}' WHERE name = 'y'")
        done(inbox.store, "DELETE FROM duly_jobs WHERE name = 'x'")
        inbox.clock.advance(10 * EVENTS)
        assert (await inbox.bodies(), await inbox.events()) == (1, 1)
        assert duly.prune(inbox.store) == 1
        assert inbox.held() == {"busy": True}
        assert (inbox.count("claims"), inbox.count("deliveries")) == (1, 1)
        inbox.finish_jobs()
        assert (await inbox.bodies(), await inbox.events()) == (1, 1)
        assert duly.prune(inbox.store) == 1
        assert (inbox.held(), inbox.count("claims"), inbox.count("deliveries")) == ({}, 0, 0)


async def test_what_waits_for_a_person_stays(url: str, colour: Colour) -> None:
    old = {"status": Status.TOO_OLD, "flag": Flag.TOO_OLD, "ttl": None, "body_ttl": None}
    async with an_inbox(url, colour) as inbox:
        await inbox.receive(plain("too old", **old), plain("usual"))
        inbox.clock.advance(100 * EVENTS)
        assert (await inbox.bodies(), await inbox.events()) == (1, 1)
        assert duly.prune(inbox.store) == 1
        assert inbox.held() == {"too old": True}
        assert (inbox.count("claims"), inbox.count("deliveries")) == (1, 1)


async def test_for_ever_is_for_ever(url: str, colour: Colour) -> None:
    async with an_inbox(url, colour) as inbox:
        await inbox.receive(
            plain("event for ever", ttl=None),
            plain("body as long as its event", body_ttl=None),
            plain("both for ever", ttl=None, body_ttl=None),
            plain("body longer than its event", body_ttl=60 * DAY),
        )
        inbox.clock.advance(BODIES)
        assert (await inbox.bodies(), await inbox.events()) == (1, 0)
        inbox.clock.advance(EVENTS)
        assert (await inbox.bodies(), await inbox.events()) == (0, 2)
        inbox.clock.advance(100 * EVENTS)
        assert (await inbox.bodies(), await inbox.events()) == (0, 0)
        assert inbox.held() == {"event for ever": False, "both for ever": True}


async def test_events_received_alone_go_as_those_of_a_batch(url: str, colour: Colour) -> None:
    async with an_inbox(url, colour) as inbox:
        for one in (plain("a"), plain("for ever", ttl=None), plain("whole", body_ttl=None)):
            outcome = await inbox.runner.run(
                lambda session, one=one: receive_alone(session, one),  # type: ignore[misc]
                wait=timedelta(seconds=2),
            )
            assert outcome.status is Status.ACCEPTED
        inbox.clock.advance(BODIES)
        assert (await inbox.bodies(), await inbox.events()) == (2, 0)
        inbox.clock.advance(EVENTS)
        assert (await inbox.bodies(), await inbox.events()) == (0, 2)
        assert inbox.held() == {"for ever": False}


async def test_a_chunk_touches_no_more_than_it_was_told_and_the_oldest_first(
    url: str, colour: Colour
) -> None:
    async with an_inbox(url, colour) as inbox:
        for number in range(5):
            await inbox.receive(plain(f"evt_{number}"))
            inbox.clock.advance(timedelta(minutes=1))
        inbox.clock.advance(BODIES)
        assert await inbox.bodies(limit=2) == 2
        assert list(inbox.held().values()) == [False, False, True, True, True]
        assert [await inbox.bodies(limit=2) for _ in range(3)] == [2, 1, 0]
        inbox.clock.advance(EVENTS)
        assert await inbox.events(limit=3) == 3
        assert list(inbox.held()) == ["evt_3", "evt_4"]
        assert inbox.count("deliveries") == 2
        assert [await inbox.events(limit=3) for _ in range(2)] == [2, 0]


async def test_work_that_is_left_does_not_stand_in_the_way_of_what_is_due(
    url: str, colour: Colour
) -> None:
    async with an_inbox(url, colour) as inbox:
        await inbox.receive(*(arrival("shop", f"busy_{number}") for number in range(3)))
        inbox.clock.advance(timedelta(minutes=1))
        await inbox.receive(plain("idle"))
        inbox.clock.advance(EVENTS)
        assert (await inbox.bodies(limit=1), await inbox.events(limit=1)) == (1, 1)
        assert "idle" not in inbox.held()


async def test_a_forgotten_event_goes_like_any_other(url: str, colour: Colour) -> None:
    async with an_inbox(url, colour) as inbox:
        await inbox.receive(plain("a"))
        done(inbox.store, "UPDATE duly_events SET flags = 'forgotten'")
        done(inbox.store, "DELETE FROM duly_claims")
        await inbox.receive(plain("a"))
        inbox.clock.advance(EVENTS)
        assert (await inbox.bodies(), await inbox.events()) == (2, 2)
        assert inbox.count("deliveries") == 0


async def test_rows_that_somebody_has_locked_are_left_for_the_next_time(
    own_postgres_url: str, colour: Colour
) -> None:
    async with an_inbox(own_postgres_url, colour) as inbox:
        await inbox.receive(plain("a"), plain("b"))
        inbox.clock.advance(EVENTS)
        with psycopg.connect(own_postgres_url) as other:
            other.execute("SELECT FROM duly_events WHERE event_id = 'a' FOR UPDATE")
            assert (await inbox.bodies(), await inbox.events()) == (1, 1)
        assert (await inbox.bodies(), await inbox.events()) == (1, 1)


def counted(*names: str) -> PendingCounters:
    """One of each, in the present minute."""
    tally = PendingCounters()
    for name in names:
        tally.count("shop", name)
    return tally


async def test_a_counter_goes_thirty_days_after_its_minute(url: str, colour: Colour) -> None:
    async with an_inbox(url, colour) as inbox:
        await flush(inbox.runner, counted("accepted", "duplicate", "HELD"))
        inbox.clock.advance(timedelta(minutes=1))
        await flush(inbox.runner, counted("accepted"))
        inbox.clock.advance(30 * DAYS - timedelta(minutes=1) - MICROSECOND)
        assert await prune_counters(inbox.runner, 100) == 0
        inbox.clock.advance(MICROSECOND)
        assert [await prune_counters(inbox.runner, 2) for _ in range(3)] == [2, 1, 0]
        assert found(inbox.store, "SELECT name, n FROM duly_counters") == [("accepted", 1)]
        inbox.clock.advance(timedelta(minutes=1))
        assert await prune_counters(inbox.runner, 100) == 1


def expire(url: str) -> None:
    """What was over years ago, in a database that the command will find."""
    clock = HandClock()
    clock.moment = datetime(2020, 1, 1, tzinfo=UTC)
    arrivals = [plain("a"), plain("b"), arrival("shop", "busy"), plain("for ever", ttl=None)]
    with duly.store(url, clock=clock) as store:
        for one in arrivals:
            finish(receive_many(store.sync_runner, [one]))
        finish(flush(store.sync_runner, counted("accepted", "duplicate")))


@pytest.mark.parametrize("limit", ["1", "1000"])
@pytest.mark.parametrize("kind", ["sqlite_url", "own_postgres_url"])
def test_the_command_prunes_all_of_it_and_says_how_many_of_each(
    kind: str, limit: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    url = request.getfixturevalue(kind)
    expire(url)
    assert main(["prune", url, "--limit", limit]) == 0
    assert capsys.readouterr().out == (
        "pruned 2 claims, 3 bodies, 2 events, 2 counters, 0 history, 0 effects, 0 workers\n"
    )
    assert main(["prune", url, "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out).values()) == {0}
    with duly.store(url) as store:
        left = found(store, "SELECT event_id, body IS NULL FROM duly_events ORDER BY 1")
        assert [(event, bool(bare)) for event, bare in left] == [
            ("busy", False),
            ("for ever", True),
        ]
