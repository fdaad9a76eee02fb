"""What waits for a commit is bounded and goes in order; each is answered after its own commit."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

import duly
from duly.core.errors import StoreRefused
from duly.core.session import Operation, Runner
from duly.inbox.new_event import EventOutcome, NewEvent, Status
from duly.receiver.commit_queue import (
    BATCH_BYTES,
    BATCH_EVENTS,
    WAITING_BYTES,
    CommitQueue,
    Overloaded,
    Ticket,
)
from duly.receiver.group_commit import GroupCommit
from tests.support.inboxes import arrival, found

ACCEPTED, DUPLICATE = EventOutcome(Status.ACCEPTED), EventOutcome(Status.DUPLICATE)
T = TypeVar("T")


def ticket(events: int = 1, size: int = 10) -> Ticket:
    """A delivery of so many events and bytes."""
    return Ticket([arrival("shop", f"evt_{number}") for number in range(events)], size)


def filled(most: int, *tickets: Ticket) -> CommitQueue[Ticket]:
    queue: CommitQueue[Ticket] = CommitQueue(most)
    for one in tickets:
        queue.put(one)
    return queue


def test_tickets_are_taken_in_the_order_in_which_they_came() -> None:
    tickets = [ticket() for _ in range(5)]
    queue = filled(10, *tickets)
    assert list(queue.tickets) == tickets
    assert queue.take() == tickets
    assert len(queue.tickets) == 0
    assert queue.take() == []


def test_no_more_events_wait_than_may_wait() -> None:
    queue = filled(6, ticket(3), ticket(2), ticket(1))
    with pytest.raises(Overloaded, match="come again"):
        queue.put(ticket(1))
    queue.take()
    queue.put(ticket(6))
    queue.put(ticket(50))  # counts for half of the room, as any that is large
    with pytest.raises(Overloaded):
        queue.put(ticket(1))


def test_no_more_bytes_wait_than_may_wait() -> None:
    queue = filled(1000, ticket(size=WAITING_BYTES - 10), ticket(size=10))
    with pytest.raises(Overloaded):
        queue.put(ticket(size=1))
    assert len(queue.tickets) == 2


def test_a_delivery_larger_than_all_the_room_there_is_may_wait_alone() -> None:
    queue = filled(5, ticket(50, WAITING_BYTES + 1))
    with pytest.raises(Overloaded):
        queue.put(ticket(1, 0))
    assert len(queue.take()) == 1


def test_a_batch_has_at_most_so_many_events_and_bytes_and_is_never_empty() -> None:
    small = [ticket() for _ in range(BATCH_EVENTS + 5)]
    assert len(filled(1000, *small).take()) == BATCH_EVENTS
    assert len(filled(1000, ticket(BATCH_EVENTS - 1), ticket(1), ticket(1)).take()) == 2
    assert len(filled(1000, ticket(BATCH_EVENTS - 1), ticket(2)).take()) == 1
    assert len(filled(1000, ticket(size=BATCH_BYTES), ticket(size=1)).take()) == 1
    assert len(filled(2000, ticket(1000, BATCH_BYTES * 2), ticket()).take()) == 1


def test_whoever_leaves_gives_the_room_back_and_nobody_else_loses_theirs() -> None:
    first, second, third = ticket(2), ticket(2), ticket(1)
    queue = filled(5, first, second, third)
    queue.drop(second)
    queue.drop(second)
    queue.put(fourth := ticket(2))
    with pytest.raises(Overloaded):
        queue.put(ticket(1))
    assert queue.take() == [first, third, fourth]
    queue.drop(first)
    queue.put(ticket(5))


class Gate:
    """A real store whose batches stand before a gate until it is opened, and are counted."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.open = asyncio.Event()
        self.now = self.most = self.batches = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    async def run_batch(self, operation: Operation[T], *, within: float | None = None) -> T:
        """The same, once the gate is open."""
        self.batches += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await self.open.wait()
            return await self._runner.run_batch(operation, within=within)
        finally:
            self.now -= 1


class Lane:
    """A batcher over a gate, and a few steps of the event loop."""

    def __init__(self, store: duly.types.Store, **options: Any) -> None:
        self.store = store
        self.gate = Gate(store.async_runner)
        settings: dict[str, Any] = {"most": 1000, "deadline": 5.0} | options
        runner: Any = self.gate
        self.batcher = GroupCommit(runner, **settings)

    def send(self, *arrivals: NewEvent) -> asyncio.Task[list[EventOutcome]]:
        """One delivery, on its way."""
        return asyncio.create_task(self.batcher.receive(arrivals))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the loop go on until something is so."""
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110  # one step of the loop at a time
                await asyncio.sleep(0)

    async def busy(self, scope: str) -> list[asyncio.Task[list[EventOutcome]]]:
        """Two batches in flight, each of one event."""
        sent = []
        for number in (1, 2):
            sent.append(self.send(arrival(scope, f"busy_{number}")))
            await self.until(lambda number=number: self.gate.now == number)  # type: ignore[misc]
        return sent

    def events(self) -> list[str]:
        """The events that are committed."""
        return [
            name for (name,) in found(self.store, "SELECT event_id FROM duly_events ORDER BY 1")
        ]


@asynccontextmanager
async def a_lane(**options: Any) -> AsyncIterator[Lane]:
    async with duly.store("memory:") as store:
        yield Lane(store.open(), **options)


async def test_an_idle_lane_sends_a_delivery_at_once_and_alone(scope: str) -> None:
    async with a_lane() as lane:
        lane.gate.open.set()
        assert await lane.send(arrival(scope, "a")) == [ACCEPTED]
        assert await lane.send(arrival(scope, "a")) == [DUPLICATE]
        assert lane.gate.batches == 2


async def test_while_two_batches_are_in_flight_the_next_one_gathers(scope: str) -> None:
    async with a_lane() as lane:
        busy = await lane.busy(scope)
        waiting = [lane.send(arrival(scope, f"evt_{number}")) for number in range(100)]
        await asyncio.sleep(0)
        assert lane.gate.batches == 2
        lane.gate.open.set()
        assert await asyncio.gather(*busy, *waiting) == [[ACCEPTED]] * 102
        assert lane.gate.most == 2
        assert lane.gate.batches <= 4
        assert len(lane.events()) == 102


async def test_of_many_copies_in_one_batch_one_is_accepted(scope: str) -> None:
    async with a_lane() as lane:
        busy = await lane.busy(scope)
        copies = [lane.send(arrival(scope, "same")) for _ in range(50)]
        lane.gate.open.set()
        await asyncio.gather(*busy)
        outcomes = [outcome for [outcome] in await asyncio.gather(*copies)]
        assert sorted(outcomes) == [ACCEPTED] + [DUPLICATE] * 49
        assert len(found(lane.store, "SELECT id FROM duly_jobs")) == 3


async def test_a_delivery_of_several_events_is_told_of_each_in_its_order(scope: str) -> None:
    async with a_lane() as lane:
        lane.gate.open.set()
        await lane.send(arrival(scope, "b"))
        several = [arrival(scope, name) for name in ("a", "b", "a", "c")]
        assert await lane.send(*several) == [ACCEPTED, DUPLICATE, DUPLICATE, ACCEPTED]


async def test_a_request_that_is_cancelled_in_flight_disturbs_nobody(scope: str) -> None:
    async with a_lane() as lane:
        busy = await lane.busy(scope)
        one, two, three = (lane.send(arrival(scope, name)) for name in ("one", "two", "three"))
        first = lane.gate.batches
        busy[0].cancel()
        lane.gate.open.set()
        await asyncio.wait([busy[0]])
        assert busy[0].cancelled()
        for sent in (busy[1], one, two, three):
            assert await sent == [ACCEPTED]
        assert first == 2
        # What was committed for the one who left is a duplicate when its sender comes again.
        assert await lane.send(arrival(scope, "busy_1")) == [DUPLICATE]


async def test_a_request_that_is_cancelled_before_its_batch_leaves_nothing(scope: str) -> None:
    async with a_lane() as lane:
        busy = await lane.busy(scope)
        gone, stays = lane.send(arrival(scope, "gone")), lane.send(arrival(scope, "stays"))
        await asyncio.sleep(0)
        gone.cancel()
        lane.gate.open.set()
        assert await asyncio.gather(stays, *busy) == [[ACCEPTED]] * 3
        assert lane.events() == ["busy_1", "busy_2", "stays"]
        assert await lane.send(arrival(scope, "gone")) == [ACCEPTED]


async def test_a_full_lane_refuses_and_those_who_wait_do_not_notice(scope: str) -> None:
    async with a_lane(most=2) as lane:
        busy = await lane.busy(scope)
        waiting = [lane.send(arrival(scope, f"evt_{number}")) for number in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await lane.send(arrival(scope, "too many"))
        lane.gate.open.set()
        assert await asyncio.gather(*busy, *waiting) == [[ACCEPTED]] * 4
        assert await lane.send(arrival(scope, "too many")) == [ACCEPTED]


async def test_a_delivery_that_is_not_committed_in_time_is_told_so_and_known_later(
    scope: str,
) -> None:
    async with a_lane(deadline=0.05) as lane:
        busy = await lane.busy(scope)
        queued = lane.send(arrival(scope, "queued"))
        for late in (*busy, queued):
            with pytest.raises(
                duly.errors.StoreUnavailable, match=r"within 0\.05 seconds: send it again"
            ):
                await late
        lane.gate.open.set()
        await lane.until(lambda: lane.gate.now == 0)
        assert lane.events() == ["busy_1", "busy_2"]
        assert await lane.send(arrival(scope, "busy_1")) == [DUPLICATE]
        assert await lane.send(arrival(scope, "queued")) == [ACCEPTED]


async def test_one_that_cannot_be_written_fails_alone(scope: str) -> None:
    async with a_lane() as lane:
        busy = await lane.busy(scope)
        bad = arrival(scope, "bad")._replace(digest=b"too short")
        sent = [lane.send(one) for one in (arrival(scope, "a"), bad, arrival(scope, "b"))]
        lane.gate.open.set()
        await asyncio.gather(*busy)
        good, refused, other = await asyncio.gather(*sent, return_exceptions=True)
        assert (good, other) == ([ACCEPTED], [ACCEPTED])
        assert isinstance(refused, StoreRefused)
        assert lane.events() == ["a", "b", "busy_1", "busy_2"]


async def test_where_there_is_no_database_everybody_is_told(scope: str) -> None:
    store = duly.store("sqlite:////there/is/no/such/folder/duly.db")
    batcher = GroupCommit(store.async_runner, most=10, deadline=5.0)
    sending: list[Coroutine[Any, Any, list[EventOutcome]]] = [
        batcher.receive([arrival(scope, str(number))]) for number in range(5)
    ]
    outcomes = await asyncio.gather(*sending, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [duly.errors.StoreUnavailable] * 5
    store.close()
