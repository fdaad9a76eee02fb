"""Threads share commits: whoever finds room leads, the others follow, and none is left behind."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

import duly
from duly.core.errors import StoreRefused
from duly.core.session import Operation, Runner
from duly.inbox.new_event import EventOutcome, NewEvent, Status
from duly.receiver.commit_queue import Overloaded
from duly.receiver.group_commit_threads import ThreadGroupCommit
from tests.support.inboxes import arrival, found
from tests.support.processes import until

ACCEPTED, DUPLICATE = EventOutcome(Status.ACCEPTED), EventOutcome(Status.DUPLICATE)
CROWD = 60
T = TypeVar("T")


class Gate:
    """A real store whose batches stand before a gate until it is opened, and are counted."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._lock = threading.Lock()
        self.open = threading.Event()
        self.now = self.most = self.batches = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    async def run_batch(self, operation: Operation[T], *, within: float | None = None) -> T:
        """The same, once the gate is open."""
        with self._lock:
            self.batches += 1
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            assert self.open.wait(30), "nobody opened the gate"
            return await self._runner.run_batch(operation, within=within)
        finally:
            with self._lock:
                self.now -= 1


class Lane:
    """Followers over a gate, each delivery on a thread of its own."""

    def __init__(
        self, store: duly.types.Store, threads: ThreadPoolExecutor, **options: Any
    ) -> None:
        self.store = store
        self.gate = Gate(store.sync_runner)
        settings: dict[str, Any] = {"most": 1000, "deadline": 20.0} | options
        runner: Any = self.gate
        self.followers = ThreadGroupCommit(runner, **settings)
        self._threads = threads

    def send(self, *arrivals: NewEvent) -> Future[list[EventOutcome]]:
        """One delivery, on its way."""
        return self._threads.submit(self.followers.receive, arrivals)

    def busy(self, scope: str) -> list[Future[list[EventOutcome]]]:
        """Two leaders before the gate, each with one event."""
        sent = []
        for number in (1, 2):
            sent.append(self.send(arrival(scope, f"busy_{number}")))
            until(lambda number=number: self.gate.now == number or None)  # type: ignore[misc]
        return sent

    def waiting(self, count: int) -> None:
        """Until so many deliveries wait."""
        until(lambda: len(self.followers._queue.tickets) == count or None)

    def events(self) -> list[str]:
        """The events that are committed."""
        return [
            name for (name,) in found(self.store, "SELECT event_id FROM duly_events ORDER BY 1")
        ]

    def is_idle(self) -> bool:
        """Whether nobody leads and nobody waits."""
        return self.followers._leaders == 0 and len(self.followers._queue.tickets) == 0


@contextmanager
def a_lane(**options: Any) -> Iterator[Lane]:
    with duly.store("memory:") as store, ThreadPoolExecutor(CROWD + 5) as threads:
        lane = Lane(store, threads, **options)
        try:
            yield lane
        finally:
            lane.gate.open.set()
    assert lane.is_idle()


def test_a_thread_that_comes_alone_leads_itself(scope: str) -> None:
    with a_lane() as lane:
        lane.gate.open.set()
        assert lane.followers.receive([arrival(scope, "a")]) == [ACCEPTED]
        assert lane.followers.receive([arrival(scope, "a")]) == [DUPLICATE]
        assert lane.gate.batches == 2


def test_while_two_lead_the_others_gather_behind_them(scope: str) -> None:
    with a_lane() as lane:
        busy = lane.busy(scope)
        waiting = [lane.send(arrival(scope, f"evt_{number}")) for number in range(CROWD)]
        lane.waiting(CROWD)
        assert lane.gate.batches == 2
        lane.gate.open.set()
        assert [one.result() for one in (*busy, *waiting)] == [[ACCEPTED]] * (CROWD + 2)
        assert lane.gate.most == 2
        # One of the two takes all that wait; the other may find somebody who came meanwhile.
        assert lane.gate.batches <= 4
        assert len(lane.events()) == CROWD + 2


def test_of_many_copies_one_is_accepted(scope: str) -> None:
    with a_lane() as lane:
        busy = lane.busy(scope)
        copies = [lane.send(arrival(scope, "same")) for _ in range(CROWD)]
        lane.waiting(CROWD)
        lane.gate.open.set()
        outcomes = sorted(outcome for one in copies for outcome in one.result())
        assert outcomes == [ACCEPTED] + [DUPLICATE] * (CROWD - 1)
        assert [one.result() for one in busy] == [[ACCEPTED]] * 2
        assert len(found(lane.store, "SELECT id FROM duly_jobs")) == 3


def test_a_delivery_of_several_events_is_told_of_each_in_its_order(scope: str) -> None:
    with a_lane() as lane:
        lane.gate.open.set()
        lane.followers.receive([arrival(scope, "b")])
        several = [arrival(scope, name) for name in ("a", "b", "a", "c")]
        told = lane.followers.receive(several)
        assert told == [ACCEPTED, DUPLICATE, DUPLICATE, ACCEPTED]


def test_many_threads_with_no_gate_are_all_answered(scope: str) -> None:
    with a_lane() as lane:
        lane.gate.open.set()
        sent = [lane.send(arrival(scope, f"evt_{number % 50}")) for number in range(500)]
        outcomes = [outcome for one in sent for outcome in one.result()]
        assert outcomes.count(ACCEPTED) == 50
        assert outcomes.count(DUPLICATE) == 450
        assert lane.gate.most <= 2


def test_a_full_lane_refuses_and_those_who_wait_do_not_notice(scope: str) -> None:
    with a_lane(most=2) as lane:
        busy = lane.busy(scope)
        waiting = [lane.send(arrival(scope, f"evt_{number}")) for number in range(2)]
        lane.waiting(2)
        with pytest.raises(Overloaded):
            lane.followers.receive([arrival(scope, "too many")])
        lane.gate.open.set()
        assert [one.result() for one in (*busy, *waiting)] == [[ACCEPTED]] * 4
        assert lane.followers.receive([arrival(scope, "too many")]) == [ACCEPTED]


def test_who_waits_too_long_is_told_so_and_leaves_nothing_behind(scope: str) -> None:
    with a_lane(deadline=0.05) as lane:
        busy = lane.busy(scope)
        with pytest.raises(
            duly.errors.StoreUnavailable, match=r"within 0\.05 seconds: send it again"
        ):
            lane.followers.receive([arrival(scope, "queued")])
        lane.gate.open.set()
        assert [one.result() for one in busy] == [[ACCEPTED]] * 2  # a leader ends what it began
        assert lane.events() == ["busy_1", "busy_2"]
        assert lane.followers.receive([arrival(scope, "queued")]) == [ACCEPTED]


def test_one_that_cannot_be_written_fails_alone(scope: str) -> None:
    with a_lane() as lane:
        busy = lane.busy(scope)
        bad = arrival(scope, "bad")._replace(digest=b"too short")
        sent = [lane.send(one) for one in (arrival(scope, "a"), bad, arrival(scope, "b"))]
        lane.waiting(3)
        lane.gate.open.set()
        assert isinstance(sent[1].exception(), StoreRefused)
        assert [one.result() for one in (*busy, sent[0], sent[2])] == [[ACCEPTED]] * 4
        assert lane.events() == ["a", "b", "busy_1", "busy_2"]


def test_where_there_is_no_database_everybody_is_told_and_the_lead_goes_on(scope: str) -> None:
    store = duly.store("sqlite:////there/is/no/such/folder/duly.db")
    followers = ThreadGroupCommit(store.sync_runner, most=100, deadline=20.0)
    with ThreadPoolExecutor(10) as threads:
        sent = [
            threads.submit(followers.receive, [arrival(scope, str(number))]) for number in range(30)
        ]
    assert {type(one.exception()) for one in sent} == {duly.errors.StoreUnavailable}
    assert followers._leaders == 0


class Interrupted(BaseException):
    """As Ctrl-C ends the thread that leads."""


def test_a_leader_that_is_interrupted_answers_its_followers_and_hands_on(scope: str) -> None:
    with duly.store("memory:") as store, ThreadPoolExecutor(5) as threads:
        lane = Lane(store, threads)
        real = lane.gate.run_batch

        async def interrupted(operation: Operation[T], *, within: float | None = None) -> T:
            await real(operation, within=within)
            raise Interrupted

        lane.gate.run_batch = interrupted  # type: ignore[method-assign]
        sent = [lane.send(arrival(scope, "a"))]
        until(lambda: lane.gate.now == 1 or None)
        lane.gate.open.set()
        assert isinstance(sent[0].exception(), Interrupted)
        lane.gate.run_batch = real  # type: ignore[method-assign]
        assert lane.is_idle()
        assert lane.followers.receive([arrival(scope, "a")]) == [DUPLICATE]
