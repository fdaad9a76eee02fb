"""A reply that is lost is not an answer: duly runs the whole again and recognises its own row.

The wire is cut by a proxy, after the server has committed or before it has heard of anything.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Self

import psycopg
import pytest

import duly
from tests.support.proxies import Cut, Proxy, proxy

MINUTE = timedelta(minutes=1)
CUTS = [Cut.BEFORE, Cut.REPLY]


class Caller:
    """The verbs of one colour over one store, called from code that blocks."""

    def __init__(self, url: str, *, awaited: bool) -> None:
        self.store = duly.store(url)
        self._awaited = awaited
        self._loop = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run(self.store.aclose())
        self._loop.close()

    def dedup(self, scope: str, key: str) -> duly.First | duly.Duplicate:
        if self._awaited:
            return self._loop.run(duly.aio.dedup(self.store, scope, key))
        return duly.dedup(self.store, scope, key)

    def dedup_many(self, scope: str, keys: list[str]) -> list[duly.First | duly.Duplicate]:
        if self._awaited:
            return self._loop.run(duly.aio.dedup_many(self.store, scope, keys))
        return duly.dedup_many(self.store, scope, keys)

    def newer(self, resource: str, version: int) -> bool:
        if self._awaited:
            return self._loop.run(duly.aio.newer(self.store, resource, version))
        return duly.newer(self.store, resource, version)

    def fence(self, scope: str, key: str, work: Callable[[], str]) -> object:
        if not self._awaited:
            return duly.fence(self.store, scope, key, work)

        async def awaited_work() -> str:
            return work()

        return self._loop.run(duly.aio.fence(self.store, scope, key, awaited_work))

    def once(self, scope: str, key: str, before_mark: Callable[[], object]) -> int:
        """A leased turn that is marked by hand; its epoch."""
        if not self._awaited:
            with duly.once(self.store, scope, key, lease=MINUTE) as turn:
                before_mark()
                turn.mark("done")
                return turn.epoch
        return self._loop.run(self._once(scope, key, before_mark))

    async def _once(self, scope: str, key: str, before_mark: Callable[[], object]) -> int:
        async with duly.aio.once(self.store, scope, key, lease=MINUTE) as turn:
            before_mark()
            await turn.mark("done")
            return turn.epoch


@pytest.fixture
def wire(own_postgres_url: str) -> Iterator[Proxy]:
    with proxy(own_postgres_url) as opened:
        yield opened


@pytest.fixture(params=["sync", "async"])
def caller(request: pytest.FixtureRequest, wire: Proxy) -> Iterator[Caller]:
    """A store on the far side of the wire, with a connection open already."""
    with Caller(wire.url, awaited=request.param == "async") as opened:
        opened.dedup("warm", "up")
        yield opened


def count(url: str, table: str = "duly_claims") -> int:
    """Rows in the table but for the one that warmed the wire up."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            f"SELECT count(*) FROM {table} WHERE scope NOT IN ('warm')"
        ).fetchone()
        assert row is not None
        return int(row[0])


def sql(cut: Cut, reply: str, request: str) -> str:
    """What to wait for: the request's SQL, or the tag of its reply."""
    return request if cut is Cut.BEFORE else reply


@pytest.mark.parametrize("cut", CUTS)
def test_dedup_that_lost_its_reply_is_first_and_the_next_a_duplicate(
    cut: Cut, wire: Proxy, caller: Caller, own_postgres_url: str
) -> None:
    trap = wire.set(cut, sql(cut, "INSERT 0 1", "INSERT INTO"))
    assert caller.dedup("shop", "a") == duly.First(caller.dedup("shop", "a").first_seen)
    assert trap.sprung == 1
    assert caller.dedup("shop", "a").duplicate
    assert count(own_postgres_url) == 1


@pytest.mark.parametrize("cut", CUTS)
def test_dedup_many_that_lost_its_commit_is_first_for_each_key(
    cut: Cut, wire: Proxy, caller: Caller, own_postgres_url: str
) -> None:
    caller.dedup("shop", "b")
    trap = wire.set(cut, "COMMIT")
    answers = caller.dedup_many("shop", ["a", "b", "c", "a"])
    assert [answer.first for answer in answers] == [True, False, True, False]
    assert trap.sprung == 1
    assert all(answer.duplicate for answer in caller.dedup_many("shop", ["a", "b", "c"]))
    assert count(own_postgres_url) == 3


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("moment", ["enter", "mark"])
def test_a_leased_turn_that_lost_a_reply_is_still_the_one_holder(
    moment: str, cut: Cut, wire: Proxy, caller: Caller, own_postgres_url: str
) -> None:
    enter = sql(cut, "INSERT 0 1", "INSERT INTO")
    mark = sql(cut, "UPDATE 1", "state = 'done', result")
    if moment == "enter":
        wire.set(cut, enter)
        assert caller.once("shop", "a", lambda: None) == 1
    else:
        assert caller.once("shop", "a", lambda: wire.set(cut, mark)) == 1
    assert wire.trap is not None
    assert wire.trap.sprung == 1
    assert caller.fence("shop", "a", lambda: pytest.fail("a second effect")) == "done"
    assert count(own_postgres_url) == 1


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("moment", ["enter", "mark"])
def test_fence_that_lost_a_reply_runs_its_work_one_time(
    moment: str, cut: Cut, wire: Proxy, caller: Caller
) -> None:
    effects: list[str] = []
    enter = sql(cut, "INSERT 0 1", "INSERT INTO")
    mark = sql(cut, "UPDATE 1", "state = 'done', result")

    def work() -> str:
        effects.append("sent")
        if moment == "mark":
            wire.set(cut, mark)
        return "receipt"

    if moment == "enter":
        wire.set(cut, enter)
    assert caller.fence("shop", "a", work) == "receipt"
    assert wire.trap is not None
    assert wire.trap.sprung == 1
    assert caller.fence("shop", "a", work) == "receipt"
    assert effects == ["sent"]


@pytest.mark.parametrize("cut", CUTS)
def test_newer_that_lost_its_reply_still_says_that_the_version_is_new(
    cut: Cut, wire: Proxy, caller: Caller, own_postgres_url: str
) -> None:
    assert caller.newer("order-1", 1)
    trap = wire.set(cut, sql(cut, "INSERT 0 1", "INSERT INTO"))
    assert caller.newer("order-1", 2), "the work of this version would be done by nobody"
    assert trap.sprung == 1
    assert not caller.newer("order-1", 2)
    assert count(own_postgres_url, "duly_versions") == 1


def test_a_caller_told_that_the_store_is_unavailable_has_claimed_nothing(
    wire: Proxy, caller: Caller, own_postgres_url: str
) -> None:
    every_run = wire.set(Cut.REPLY, "INSERT 0", times=3)
    with pytest.raises(duly.errors.StoreUnavailable, match="acknowledge nothing"):
        caller.dedup("shop", "a")
    assert every_run.sprung == 3
    assert caller.dedup("shop", "a").first, "the sender retries, and nobody would do the work"
    assert count(own_postgres_url) == 1


def test_a_batch_told_that_the_store_is_unavailable_has_claimed_none_of_it(
    wire: Proxy, caller: Caller
) -> None:
    every_run = wire.set(Cut.REPLY, "COMMIT", times=3)
    with pytest.raises(duly.errors.StoreUnavailable, match="acknowledge nothing"):
        caller.dedup_many("shop", ["a", "b"])
    assert every_run.sprung == 3
    assert all(answer.first for answer in caller.dedup_many("shop", ["a", "b"]))


@pytest.mark.slow
async def test_a_call_given_up_in_a_black_hole_has_claimed_nothing(wire: Proxy) -> None:
    async with duly.store(wire.url) as store:
        await duly.aio.dedup(store, "warm", "up")
        trap = wire.set(Cut.HOLE, "INSERT 0 1")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await duly.aio.dedup(store, "shop", "a")
        assert trap.sprung == 1
        assert (await duly.aio.dedup(store, "shop", "a")).first


@pytest.mark.slow
def test_a_blocking_call_in_a_black_hole_ends_within_its_deadline(wire: Proxy) -> None:
    store = duly.store(wire.url)
    duly.dedup(store, "warm", "up")
    trap = wire.set(Cut.HOLE, "INSERT 0 1")
    thread = ThreadPoolExecutor(1)
    try:
        answer = thread.submit(duly.dedup, store, "shop", "a").result(timeout=10)
    finally:
        wire.trap = None
        wire.cut()
        thread.shutdown()
        store.close()
    assert trap.sprung == 1
    assert answer.first
