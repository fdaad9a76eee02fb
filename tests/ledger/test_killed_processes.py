"""A process may die or freeze at any instruction: no effect is lost, and none happens twice."""

import random
import selectors
import signal
import sqlite3
from collections.abc import Iterator
from datetime import timedelta

import pytest

import duly
from tests.support.processes import Worker, until
from tests.support.processes.effects import CREATE, Side

pytestmark = pytest.mark.slow

LEASE = 0.4
KEYS = [f"key-{number:03}" for number in range(200)]
RACERS, KILLS = 8, 12


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """A database for one test alone, with duly's tables and the user's."""
    kind = "own_postgres_url" if request.param == "postgres" else "sqlite_url"
    address: str = request.getfixturevalue(kind)
    with duly.store(address):
        side = Side(address)
        side.connection.execute(CREATE)
        side.close()
    return address


@pytest.fixture
def side(url: str) -> Iterator[Side]:
    """The test's own connection."""
    opened = Side(url)
    yield opened
    opened.close()


@pytest.fixture
def store(url: str) -> Iterator[duly.types.Store]:
    """The test's own store."""
    with duly.store(url) as opened:
        yield opened


@pytest.fixture
def worker(url: str) -> Iterator[Worker]:
    """A process, ready for requests."""
    with Worker(url) as started:
        assert started.reply() == "ready"
        yield started


@pytest.mark.promise("I2", "one transaction")
def test_killed_between_claim_and_commit_leaves_nothing_and_the_next_is_first(
    worker: Worker, side: Side
) -> None:
    worker.ask("begin")
    assert worker.ask("claim", scope="shop", key="a")["first"]
    worker.ask("work", name="a")
    worker.kill()

    side.begin()
    with duly.once(side.connection, "shop", "a", wait=timedelta(seconds=2)) as turn:
        assert turn.first
        assert turn.answer == duly.First(turn.first_seen, epoch=1)
        assert side.effects() == []
        side.work("a", "next")
    side.commit()
    assert side.effects() == ["a"]


@pytest.mark.promise("I3")
def test_killed_after_commit_before_telling_anyone_keeps_claim_work_and_result(
    worker: Worker, side: Side
) -> None:
    worker.ask("begin")
    worker.ask("claim", scope="shop", key="a")
    worker.ask("work", name="a")
    worker.ask("leave", result={"order": 7})
    assert worker.ask("commit_and_die") is None
    assert worker.ended() == -signal.SIGKILL

    side.begin()
    with duly.once(side.connection, "shop", "a") as turn:
        assert turn.duplicate
        assert turn.result == {"order": 7}
    side.commit()
    assert side.effects() == ["a"]


def taken(store: duly.types.Store) -> duly.First | None:
    """Take over, do the work and mark it; None while it is held."""
    try:
        with duly.once(store, "shop", "a", lease=timedelta(minutes=1)) as turn:
            assert isinstance(turn.answer, duly.First)
            side = Side(store.url)
            side.begin()
            side.work("a", "next")
            turn.mark("second", tx=side.connection)
            side.commit()
            side.close()
            return turn.answer
    except duly.errors.InProgress:
        return None


def test_killed_under_a_lease_is_held_until_it_runs_out_then_taken_over_once(
    worker: Worker, store: duly.types.Store, side: Side
) -> None:
    assert worker.ask("take", scope="shop", key="a", lease=2.0)["epoch"] == 1
    worker.kill()

    with (
        pytest.raises(duly.errors.InProgress) as held,
        duly.once(store, "shop", "a", lease=timedelta(minutes=1)),
    ):
        pytest.fail("two holders of one lease")
    assert timedelta(0) < held.value.retry_after <= timedelta(seconds=2)

    assert until(lambda: taken(store)).epoch == 2
    assert duly.fence(store, "shop", "a", lambda: pytest.fail("a second effect")) == "second"
    assert side.effects() == ["a"]


@pytest.mark.promise("I8")
@pytest.mark.parametrize(
    ("request_", "values"),
    [
        ("renew", {}),
        ("mark", {"result": "late"}),
        ("work_and_mark", {"name": "a", "result": "late"}),
        ("leave", {"result": "late"}),
    ],
)
def test_a_worker_frozen_past_its_lease_is_refused_and_leaves_no_effect(
    request_: str, values: dict[str, object], worker: Worker, store: duly.types.Store, side: Side
) -> None:
    worker.ask("take", scope="shop", key="a", lease=LEASE)
    worker.pause()
    worker.send(request_, **values)
    assert until(lambda: taken(store)).epoch == 2

    worker.go_on()
    assert worker.reply() == "LeaseLost"
    assert duly.fence(store, "shop", "a", lambda: pytest.fail("a second effect")) == "second"
    assert side.effects() == ["a"]


def test_a_worker_past_its_lease_may_still_finish_if_nobody_took_over(
    worker: Worker, store: duly.types.Store, side: Side
) -> None:
    worker.ask("take", scope="shop", key="a", lease=0.001)
    assert worker.ask("work_and_mark", name="a", result="late but first") == "marked"
    assert duly.fence(store, "shop", "a", lambda: pytest.fail("a second effect")) == (
        "late but first"
    )
    assert side.effects() == ["a"]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_killed_holder_of_sqlites_write_lock_leaves_no_lock(worker: Worker, side: Side) -> None:
    worker.ask("begin")
    worker.ask("work", name="a")
    side.connection.execute("PRAGMA busy_timeout = 0")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        side.begin()
    worker.kill()

    side.begin()
    assert duly.dedup(side.connection, "shop", "a").first
    side.commit()
    assert side.effects() == []


@pytest.mark.promise("I3", "one first", "machines")
@pytest.mark.parametrize("form", ["transaction", "lease"])
def test_racing_processes_killed_at_random_do_each_key_once(
    form: str, url: str, side: Side
) -> None:
    Race(url, form).run()
    assert side.effects() == KEYS


class Race:
    """Eight processes after the same keys; every few steps one is killed and replaced."""

    def __init__(self, url: str, form: str) -> None:
        self._url = url
        self._form = form
        self._ready = selectors.DefaultSelector()
        self._racers: list[Worker] = []
        self._settled = 0
        self._killed = 0

    def run(self) -> None:
        try:
            for _ in range(RACERS):
                self._start()
            while self._racers:
                for found, _ in self._ready.select(timeout=30) or pytest.fail("nobody moves"):
                    self._hear(found.data)
        finally:
            for racer in list(self._racers):
                self._end(racer)
            self._ready.close()
        assert self._killed == KILLS, "the race was over before it was hard"

    def _start(self) -> None:
        racer = Worker(self._url)
        racer.send("race", scope="shop", keys=KEYS, form=self._form)
        self._racers.append(racer)
        self._ready.register(racer.replies, selectors.EVENT_READ, racer)

    def _hear(self, racer: Worker) -> None:
        if racer not in self._racers:
            return
        said = racer.reply()
        assert said in ("ready", "settled", "finished"), said
        if said == "finished":
            self._end(racer)
        self._settled += said == "settled"
        if self._racers and self._settled > 20 * self._killed and self._killed < KILLS:
            self._killed += 1
            self._end(random.choice(self._racers))
            self._start()

    def _end(self, racer: Worker) -> None:
        self._racers.remove(racer)
        self._ready.unregister(racer.replies)
        racer.kill()
