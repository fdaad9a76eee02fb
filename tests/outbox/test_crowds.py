"""Many callers at once, in transactions that commit in any order or not at all.

On PostgreSQL every transaction is open before the first of them stages. SQLite has one writer:
there they all ask for the lock at the same time.
"""

from __future__ import annotations

import asyncio
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.jobs.enqueue.test_crowds import connected, connected_awaited, keeps
from tests.outbox.offices import EVERY, an_office, relaying
from tests.stores.join.places import Place
from tests.worker.subjects import cases, seen

if TYPE_CHECKING:
    from duly.outbox.message import Staged
    from tests.outbox.offices import Office
    from tests.worker.subjects import Case, DatabaseOf

CROWD = 50
STREAM = 100
PATIENCE = 60.0
# A transaction of the user's own needs a database that they can open, too.
OWN = cases(kinds=["sqlite", "postgres"], ways=["tx"])


@dataclass(frozen=True, slots=True)
class Told:
    """What one caller was told, and whether they committed."""

    committed: bool
    answer: Staged


def together(office: Office, place: Place) -> list[Told]:
    """Callers on threads, with connections that block."""
    ready = threading.Barrier(CROWD, timeout=PATIENCE)

    def call(number: int) -> Told:
        with closing(connected(place)) as connection:
            if place.is_sqlite:
                ready.wait()
            connection.execute("BEGIN IMMEDIATE" if place.is_sqlite else "BEGIN")
            if not place.is_sqlite:
                ready.wait()
            answer = office.app.send(office.url("/hook"), json=number, key="paid", tx=connection)
            connection.execute("COMMIT" if keeps(number) else "ROLLBACK")
        return Told(keeps(number), answer)

    with ThreadPoolExecutor(CROWD) as threads:
        return list(threads.map(call, range(CROWD)))


async def together_awaited(office: Office, place: Place) -> list[Told]:
    """Callers in tasks, with connections that are awaited."""
    ready = asyncio.Barrier(CROWD)

    async def call(number: int) -> Told:
        async with connected_awaited(place) as connection:
            if place.is_sqlite:
                await ready.wait()
            await connection.execute("BEGIN IMMEDIATE" if place.is_sqlite else "BEGIN")
            if not place.is_sqlite:
                await ready.wait()
            answer = await office.app.aio.send(
                office.url("/hook"), json=number, key="paid", tx=connection
            )
            await connection.execute("COMMIT" if keeps(number) else "ROLLBACK")
        return Told(keeps(number), answer)

    async with asyncio.timeout(PATIENCE):
        return await asyncio.gather(*map(call, range(CROWD)))


@pytest.mark.slow
@pytest.mark.parametrize("case", OWN, ids=lambda case: case.name)
async def test_fifty_open_transactions_with_one_key_make_one_message(
    case: Case, place: DatabaseOf
) -> None:
    async with an_office(case, place) as office:
        if office.awaited:
            told = await together_awaited(office, Place(place.url))
        else:
            told = await asyncio.to_thread(together, office, Place(place.url))
        [message] = office.messages()
        committed = [one.answer for one in told if one.committed]
        assert {answer.id for answer in committed} == {message.id}
        assert [answer.first for answer in committed].count(True) == 1
        [owner] = [number for number, one in enumerate(told) if one.committed and one.answer.first]
        await office.relay()
        assert [one.body for one in office.there.requests] == [str(owner).encode()]


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
async def test_callers_without_a_transaction_agree_on_one_message_too(
    case: Case, place: DatabaseOf
) -> None:
    async with an_office(case, place) as office:
        told = await asyncio.gather(*(office.send(key="paid") for _ in range(40)))
        assert [answer.first for answer in told].count(True) == 1
        assert {answer.id for answer in told} == {row.id for row in office.messages()}
        assert len(office.messages()) == 1


def stream(office: Office, place: Place, order: list[int]) -> None:
    """Transactions that stage in one order and end in another, while somebody sends."""
    last = threading.Barrier(STREAM, timeout=PATIENCE)
    ends = [threading.Event() for _ in order]

    def call(number: int) -> None:
        with closing(connected(place)) as connection:
            connection.execute("BEGIN")
            office.app.send(office.url("/hook"), json=number, tx=connection)
            last.wait()
            ends[number].wait(PATIENCE)
            connection.execute("COMMIT" if keeps(number) else "ROLLBACK")
        following = order.index(number) + 1
        if following < len(order):
            ends[order[following]].set()

    with ThreadPoolExecutor(STREAM) as threads:
        ends[order[0]].set()
        list(threads.map(call, range(STREAM)))


async def stream_awaited(office: Office, place: Place, order: list[int]) -> None:
    """The same in tasks."""
    last = asyncio.Barrier(STREAM)
    ends = [asyncio.Event() for _ in order]

    async def call(number: int) -> None:
        async with connected_awaited(place) as connection:
            await connection.execute("BEGIN")
            await office.app.aio.send(office.url("/hook"), json=number, tx=connection)
            await last.wait()
            await ends[number].wait()
            await connection.execute("COMMIT" if keeps(number) else "ROLLBACK")
        following = order.index(number) + 1
        if following < len(order):
            ends[order[following]].set()

    ends[order[0]].set()
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*map(call, range(STREAM)))


def arrived(office: Office) -> list[int]:
    """What the receiver has, in the order of the callers."""
    return sorted(int(one.body) for one in list(office.there.requests))


def shuffled() -> list[int]:
    """Any order; the seed is told where it goes wrong."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    order = list(range(STREAM))
    random.Random(seed).shuffle(order)
    return order


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(kinds=["postgres"], ways=["tx"]), ids=lambda case: case.name)
async def test_a_hundred_transactions_that_commit_out_of_order_are_all_sent_while_a_relay_runs(
    case: Case, place: DatabaseOf
) -> None:
    async with an_office(case, place) as office, relaying(office) as relay:
        order = shuffled()
        if office.awaited:
            await stream_awaited(office, Place(place.url), order)
        else:
            await asyncio.to_thread(stream, office, Place(place.url), order)
        await seen(lambda: len(office.there.requests) >= STREAM // 2)
        await seen(lambda: office.messages() == [])
        assert arrived(office) == list(filter(keeps, range(STREAM)))
    assert (relay.relayed.sent, relay.relayed.resent) == (STREAM // 2, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", cases(kinds=["sqlite", "memory"], ways=["tx"]), ids=lambda case: case.name
)
async def test_a_hundred_callers_at_once_are_all_sent_while_a_relay_runs(
    case: Case, place: DatabaseOf
) -> None:
    """One writer at a time: there is no order but the one in which they commit."""

    async def call(number: int) -> Any:
        if keeps(number):
            return await office.send(json=number)
        with pytest.raises(ZeroDivisionError):
            await rolled_back(office, number)
        return None

    async with an_office(case, place) as office, relaying(office) as relay:
        await asyncio.gather(*map(call, range(STREAM)))
        await seen(lambda: office.messages() == [])
        assert arrived(office) == list(filter(keeps, range(STREAM)))
    assert (relay.relayed.sent, relay.relayed.resent) == (STREAM // 2, 0)


async def rolled_back(office: Office, number: int) -> None:
    """Stage, and fail."""
    if office.awaited:
        async with office.app.aio.transaction() as awaited:
            await awaited.send(office.url("/hook"), json=number)
            raise ZeroDivisionError

    def blocking() -> None:
        with office.app.transaction() as tx:
            tx.send(office.url("/hook"), json=number)
            raise ZeroDivisionError

    await asyncio.to_thread(blocking)


@pytest.mark.parametrize("case", cases(kinds=["postgres"], ways=["tx"]), ids=lambda case: case.name)
async def test_two_relays_share_the_work_and_send_each_message_once(
    case: Case, place: DatabaseOf
) -> None:
    async with an_office(case, place) as office:
        sent = await office.send_many(200)
        both = await asyncio.gather(office.relay(), office.relay())
        assert sum(one.sent for one in both) == 200
        assert sorted(one.headers["idempotency-key"] for one in office.there.requests) == sorted(
            sent
        )
