"""One turn of one contender, in a process of its own: `python -m benchmarks.working.playing ORDER`.

This runs under the contender's own Python, where nothing is installed but its library, so it needs
the standard library and psycopg alone. A drain is timed from the moment the first job begins until
the database says that the last one is settled, for everyone alike: starting up is not counted.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import traceback
from importlib import import_module
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, cast

import psycopg

from benchmarks.working.begun import BEGUN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from contextlib import AbstractAsyncContextManager

Turn = Literal["prepare", "fill", "enqueue", "drain", "listen", "send"]
Kind = Literal["noop", "update", "update-bulk"]
# How many jobs one call of a bulk enqueue gets.
CHUNK = 1000
# Between two questions whether anything is left to settle.
GLANCE = 0.004
# What a caller writes in the transaction in which it enqueues.
ORDER = "INSERT INTO orders (id) VALUES (%s)"


class Order(TypedDict):
    """What to do: whose turn, with which settings, and how much."""

    player: str
    settings: dict[str, int]
    turn: Turn
    url: str
    kind: Kind
    counts: dict[str, int]
    patience: float
    parent: int


class Enqueuer(Protocol):
    """The three ways to enqueue."""

    async def one(self, kind: Kind, number: int) -> None:
        """One job, committed on return."""

    async def many(self, kind: Kind, numbers: Sequence[int]) -> None:
        """Many at once."""

    async def within(self, kind: Kind, number: int) -> None:
        """A transaction of the caller's: one row of its own, one job, the commit."""


class Player(Protocol):
    """What the module of a contender offers."""

    LEFT: str  # a question: is any job not settled?

    async def prepare(self, url: str) -> None:
        """Make its tables."""

    async def work(self, url: str, settings: dict[str, int]) -> None:
        """Be a worker until the process ends."""

    def enqueuing(self, url: str) -> AbstractAsyncContextManager[Enqueuer]:
        """Open what enqueues."""


def main(order: Order) -> None:
    player = cast("Player", import_module(f"benchmarks.working.players.{order['player']}"))
    turns: dict[Turn, Callable[[Player, Order], Coroutine[Any, Any, None]]] = {
        "prepare": prepare,
        "fill": fill,
        "enqueue": enqueue,
        "drain": drain,
        "listen": listen,
        "send": send,
    }
    threading.Thread(target=end_with, args=(order["parent"],), daemon=True).start()
    run(turns[order["turn"]](player, order))


def end_with(parent: int) -> None:
    """Leave no worker behind a run that was killed."""
    while os.getppid() == parent:
        sleep(1)
    os._exit(1)


def run(turn: Coroutine[Any, Any, None]) -> None:
    """On the faster event loop where the contender brings it along."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(turn)
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(turn)


async def prepare(player: Player, order: Order) -> None:
    await player.prepare(order["url"])


async def fill(player: Player, order: Order) -> None:
    async with player.enqueuing(order["url"]) as enqueuer:
        await in_chunks(enqueuer, order["kind"], range(1, order["counts"]["jobs"] + 1))


async def in_chunks(enqueuer: Enqueuer, kind: Kind, numbers: range) -> None:
    for start in range(0, len(numbers), CHUNK):
        await enqueuer.many(kind, numbers[start : start + CHUNK])


async def enqueue(player: Player, order: Order) -> None:
    """Jobs per second in each of the three ways."""
    counts, kind = order["counts"], order["kind"]
    async with player.enqueuing(order["url"]) as enqueuer:
        await enqueuer.one(kind, 0)  # pools up, statements prepared
        await enqueuer.within(kind, 0)
        ones, withins = range(1, counts["one"] + 1), range(1, counts["within"] + 1)
        found = {
            "one": await rate(len(ones), each(enqueuer.one, kind, ones)),
            "within": await rate(len(withins), each(enqueuer.within, kind, withins)),
            "bulk": await rate(
                counts["bulk"], in_chunks(enqueuer, kind, range(1, counts["bulk"] + 1))
            ),
        }
    print(json.dumps(found), flush=True)


async def each(
    way: Callable[[Kind, int], Awaitable[None]], kind: Kind, numbers: Sequence[int]
) -> None:
    for number in numbers:
        await way(kind, number)


async def rate(number: int, work: Awaitable[None]) -> float:
    begun = monotonic()
    await work
    return number / (monotonic() - begun)


async def drain(player: Player, order: Order) -> None:
    """Work until nothing is left, watched by a thread that ends the process."""
    BEGUN.expect(order["counts"]["jobs"])
    connection = psycopg.connect(order["url"], autocommit=True)
    threading.Thread(
        target=or_end, args=(watch, connection, player.LEFT, order["patience"])
    ).start()
    try:
        await player.work(order["url"], order["settings"])
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    await asyncio.Event().wait()  # a worker that returned; its watcher still looks


def or_end(work: Callable[..., None], *arguments: Any) -> None:
    """An error ends the process, in whichever thread it comes up."""
    try:
        work(*arguments)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def watch(connection: psycopg.Connection[Any], left: str, patience: float) -> None:
    """Wait for the last job to begin and for the database to have settled all; say how long."""
    deadline = monotonic() + patience
    BEGUN.all.wait(patience)
    while connection.execute(left.encode()).fetchone() != (False,):
        if monotonic() > deadline:
            print(f"{BEGUN.so_far()} jobs begun in {patience:.0f} s", file=sys.stderr, flush=True)
            os._exit(1)
        sleep(GLANCE)
    ended = monotonic()
    print(json.dumps({"seconds": ended - BEGUN.first, "begun": BEGUN.so_far()}), flush=True)
    os._exit(0)  # no worker is asked to end: how long that takes is not measured here


async def listen(player: Player, order: Order) -> None:
    """Work, and print when each job begins."""
    BEGUN.aloud()
    await player.work(order["url"], order["settings"])


async def send(player: Player, order: Order) -> None:
    """Enqueue a job for each line, and print when the call was made."""
    async with player.enqueuing(order["url"]) as enqueuer:
        for line in sys.stdin:
            called = monotonic()
            await enqueuer.one(order["kind"], int(line))
            print(f"{called:.9f}", flush=True)


if __name__ == "__main__":
    main(cast("Order", json.loads(sys.argv[1])))
