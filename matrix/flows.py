"""The flows: what is there before, what is done while the fault strikes, and how it must end.

To add one, write its steps as awaited verbs of a bench and name it in ``FLOWS``; its statements are
found by running it.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import aiosqlite
import asyncpg
import psycopg

import duly
from duly._kernel.onestep import finish
from duly._kernel.options import PRUNE_CHUNK
from duly.runtime.janitor import PRUNERS
from duly.runtime.settings import settings_of
from matrix.bench import LEASE, Bench, Delivery
from matrix.shop import COUNT, Terms, scheduled, shop

if TYPE_CHECKING:
    from matrix.places import Place

Part = Callable[[Bench, "Place"], Awaitable[None]]
ONE, TWO, THREE = (Delivery("orders", f"evt_{number}") for number in (1, 2, 3))
INLINE = Delivery("counter", "evt_9")
PUSH, FORGED = Delivery("hub", "id_1"), Delivery("hub", "id_1", amount=1_000_000)
# Signed with a secret that is not ours.
FAKE = Delivery("orders", "evt_fake", secret="whsec_" + "AAAA" * 8)
SHORT, GRACE = timedelta(seconds=3), timedelta(seconds=10)
BEATS, PATIENCE, ATTEMPTS = 3, 10.0, 100
# How long a claim in a transaction of the user's waits for another one; for ever, unless told.
MOMENT = timedelta(seconds=1)
CLAIM = ("INSERT INTO effects (what, who) VALUES ('claim', 0)", COUNT)


async def nothing(bench: Bench, place: Place) -> None:
    """There is nothing to prepare, or nothing that anybody does again."""


def open_gate(place: Place) -> None:
    """Hold nothing."""


@dataclass(frozen=True, slots=True)
class Flow:
    """One flow. What it must lead to is said by names, each of which must be there just once."""

    name: str
    run: Part
    prepare: Part = nothing
    # What a sender, a caller or an operator does again who heard nothing.
    again: Part = nothing
    effects: tuple[str, ...] = ()
    # Calls to the outside: at least once, and always with the same key.
    calls: tuple[str, ...] = ()
    # Messages: at least once, and always with the same id.
    messages: tuple[str, ...] = ()
    # Names of what was given up, jobs and messages.
    dead: tuple[str, ...] = ()
    # Ids of the events that must be there.
    events: tuple[str, ...] = ()
    make: Callable[[Terms], duly.Duly] = shop
    # Only these statements, where the others are those of another flow.
    only: tuple[str, ...] = ()
    # What holds its jobs.
    gate: Callable[[Place], None] = open_gate
    empty: bool = False  # there are no tables yet
    without: tuple[str, ...] = ()  # faults that say nothing here
    # Whether a job of it can be held by two: at work, and in a transaction at work.
    leased: bool = False
    inside: bool = False
    extra: dict[str, Any] = field(default_factory=dict)

    def rivals(self, store: str) -> bool:
        """Whether two can be at work on one job; on SQLite there is one transaction at a time."""
        return self.leased or (self.inside and store != "sqlite")


def delivering(*deliveries: Delivery) -> Part:
    """Send these."""

    async def deliver(bench: Bench, place: Place) -> None:
        await bench.deliver(*deliveries)

    return deliver


def delivering_again(*deliveries: Delivery) -> Part:
    """Send those of which no sender has heard 2xx; the others are through with theirs."""

    async def deliver(bench: Bench, place: Place) -> None:
        told = {
            (reply["source"], reply["id"], reply["body"])
            for reply in bench.terms.journal.of("reply")
            if 200 <= reply["status"] < 300
        }
        await bench.deliver(*(each for each in deliveries if each.named not in told))

    return deliver


def unless_told(part: Part) -> Part:
    """Do it again, unless it had come to its end: who has heard of that does not ask again."""

    async def again(bench: Bench, place: Place) -> None:
        if not bench.terms.journal.of("completed"):
            await part(bench, place)

    return again


def enqueuing(name: str, **options: Any) -> Part:
    """Ask for a job, always under the same key."""

    async def enqueue(bench: Bench, place: Place) -> None:
        await bench.enqueue(name, "it", key=f"{name}-it", **options)

    return enqueue


def sending(*paths: str) -> Part:
    """Ask for messages, each always under the same key."""

    async def send(bench: Bench, place: Place) -> None:
        for path in paths:
            await bench.send(path, key=path)

    return send


async def working(bench: Bench, place: Place) -> None:
    """A worker, until there is nothing to do."""
    await bench.work()


async def working_through(bench: Bench, place: Place) -> None:
    """Workers, until the last attempt is over: one may end while the next is due in a moment."""
    for _ in range(ATTEMPTS):
        await bench.work()
        if place.rows("SELECT count(*) FROM duly_jobs WHERE state <> 'dead'") == [(0,)]:
            return
        time.sleep(0.02)  # noqa: ASYNC251  # nothing else is going on


async def relaying(bench: Bench, place: Place) -> None:
    """A relay, until there is nothing to send."""
    await bench.relay()


async def claiming(bench: Bench, place: Place) -> None:
    """One key, and its effect in the same transaction of the user's, on a driver of the user's."""
    claim = {
        (True, True): claim_sqlite3,
        (True, False): claim_psycopg,
        (False, True): claim_aiosqlite,
        (False, False): claim_asyncpg,
    }[bench.is_sync, is_sqlite(place)]
    await claim(bench.terms.url)


async def claim_sqlite3(url: str) -> None:
    """With the standard library's."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute("BEGIN IMMEDIATE")
        if duly.dedup(connection, "matrix", "claim", wait=MOMENT).first:
            for statement in CLAIM:
                connection.execute(statement)


async def claim_aiosqlite(url: str) -> None:
    """With aiosqlite."""
    async with aiosqlite.connect(url.removeprefix("sqlite:///")) as connection:
        await connection.execute("BEGIN IMMEDIATE")
        if (await duly.aio.dedup(connection, "matrix", "claim", wait=MOMENT)).first:
            for statement in CLAIM:
                await connection.execute(statement)
        await connection.commit()


async def claim_psycopg(url: str) -> None:
    """With psycopg."""
    with psycopg.connect(url) as connection:
        if duly.dedup(connection, "matrix", "claim", wait=MOMENT).first:
            for statement in CLAIM:
                connection.execute(statement)


async def claim_asyncpg(url: str) -> None:
    """With asyncpg."""
    connection = await asyncpg.connect(url, statement_cache_size=0)
    try:
        async with connection.transaction():
            if (await duly.aio.dedup(connection, "matrix", "claim", wait=MOMENT)).first:
                for statement in CLAIM:
                    await connection.execute(statement)
    finally:
        await connection.close()


async def abandoned(bench: Bench, place: Place) -> None:
    """A job that was leased by a worker which is gone."""
    await bench.enqueue("follow", "it")
    place.rows(
        "UPDATE duly_jobs SET state = 'leased', epoch = 1, token = "
        + ("randomblob(16)" if place.url.startswith("sqlite") else "uuid_send(gen_random_uuid())")
    )


async def buried(bench: Bench, place: Place) -> None:
    """A job that was given up."""
    await bench.enqueue("flaky", "it")
    place.rows("UPDATE duly_jobs SET max_attempts = 1")
    await bench.work()
    place.rows("UPDATE duly_jobs SET max_attempts = 5")


async def replaying(bench: Bench, place: Place) -> None:
    """Have whatever is dead run again."""
    await bench.replay([letter.id for letter in await bench.dead()])


async def old_and_new(bench: Bench, place: Place) -> None:
    """Two events whose time is over, one of them with work left, and a new one."""
    await bench.deliver(ONE)
    await bench.work()
    await bench.relay()
    await bench.deliver(THREE)
    over = "1" if is_sqlite(place) else "now() - interval '1 day'"
    columns = ("body_until", "expires_at", "due_at")
    place.rows("UPDATE duly_events SET " + ", ".join(f"{column} = {over}" for column in columns))
    place.rows(f"UPDATE duly_claims SET expires_at = {over}")
    await bench.deliver(TWO)


async def pruned_and_asked(bench: Bench, place: Place) -> None:
    """Remove what is old once more; what is not must still be known."""
    await pruning(bench, place)
    await bench.deliver(TWO)


async def beating(bench: Bench, place: Place) -> None:
    """A worker whose heart has to beat while its job is at work."""
    await bench.work(lease=SHORT)


def beaten(place: Place) -> None:
    """Hold the job until the heart has beaten twice, or does not any more."""
    seen: set[Any] = set()
    until = time.monotonic() + PATIENCE
    while len(seen) < BEATS and time.monotonic() < until:
        seen.update(place.rows("SELECT seen_at FROM duly_workers"))
        time.sleep(0.02)


async def stopping(bench: Bench, place: Place) -> None:
    """A worker that is told to end with a job at work and others in its hands."""
    if bench.is_sync:
        asyncio.run(stopped(bench))
    else:
        await stopped(bench)


async def stopped(bench: Bench) -> None:
    """Work, and stop as soon as the first job runs."""
    worker = bench.app.worker(settings_of(1, ["default"], LEASE, GRACE))
    running = asyncio.create_task(worker.run("stopped"))
    try:
        while not running.done() and not bench.terms.journal.of("call"):  # noqa: ASYNC110  # a file
            await asyncio.sleep(0.01)
        worker.stop()
        await running
    finally:
        if bench.is_sync:
            await bench.app.release_loop()


async def three_slow(bench: Bench, place: Place) -> None:
    """More than a worker does at once."""
    for name in ("one", "two", "three"):
        await bench.enqueue("slow", name)


def is_sqlite(place: Place) -> bool:
    """Which dialect a statement has to be in."""
    return place.url.startswith("sqlite")


async def pruning(bench: Bench, place: Place) -> None:
    """Remove everything that is old, as every worker does now and then."""
    for prune in PRUNERS:
        if bench.is_sync:
            finish(prune(bench.app.store.blocking, PRUNE_CHUNK))
        else:
            await prune(bench.app.store.awaited, PRUNE_CHUNK)


async def migrating(bench: Bench, place: Place) -> None:
    """Make the tables."""
    bench.app.store.migrate()


FLOWS = {
    flow.name: flow
    for flow in (
        Flow(
            "receive-new",
            delivering(ONE),
            again=delivering_again(ONE),
            effects=("book evt_1", "follow evt_1"),
            messages=("/ok/evt_1",),
            events=("evt_1",),
        ),
        Flow(
            "receive-duplicate",
            delivering(ONE),
            prepare=delivering(ONE),
            again=delivering_again(ONE),
            effects=("book evt_1", "follow evt_1"),
            messages=("/ok/evt_1",),
            events=("evt_1",),
        ),
        Flow(
            "receive-inline",
            delivering(INLINE),
            again=delivering_again(INLINE),
            effects=("serve evt_9",),
            events=("evt_9",),
        ),
        Flow(
            "receive-batch",
            delivering(ONE, TWO, TWO, THREE),
            prepare=delivering(ONE),
            again=delivering_again(ONE, TWO, THREE),
            effects=tuple(f"{name} evt_{n}" for name in ("book", "follow") for n in (1, 2, 3)),
            messages=tuple(f"/ok/evt_{n}" for n in (1, 2, 3)),
            events=("evt_1", "evt_2", "evt_3"),
        ),
        Flow(
            "receive-conflict",
            delivering(FORGED),
            prepare=delivering(PUSH),
            again=delivering_again(FORGED),
            effects=("book id_1", "follow id_1"),
            messages=("/ok/id_1",),
            events=("id_1", "id_1"),
            extra={"conflict": True},
        ),
        Flow(
            "receive-forged",
            delivering(FAKE, ONE, FAKE),
            again=delivering_again(FAKE, ONE),
            effects=("book evt_1", "follow evt_1"),
            messages=("/ok/evt_1",),
            events=("evt_1",),
            extra={"forged": ["evt_fake"]},
        ),
        Flow("claim", claiming, again=unless_told(claiming), effects=("claim",)),
        Flow(
            "enqueue",
            enqueuing("follow"),
            again=unless_told(enqueuing("follow")),
            effects=("follow it",),
        ),
        Flow(
            "job-tx",
            working,
            prepare=delivering(ONE),
            inside=True,
            effects=("book evt_1", "follow evt_1"),
            messages=("/ok/evt_1",),
            events=("evt_1",),
        ),
        Flow("job-leased", working, prepare=enqueuing("mail"), calls=("mail it",), leased=True),
        Flow("job-effect", working, prepare=enqueuing("charge"), calls=("charge it",), leased=True),
        Flow("job-retry", working_through, prepare=enqueuing("flaky"), effects=("flaky it",)),
        Flow("job-dead", working, prepare=enqueuing("doomed"), dead=("doomed",)),
        Flow("rescue", working, prepare=abandoned, effects=("follow it",), inside=True),
        Flow(
            "heartbeat",
            beating,
            prepare=enqueuing("slow"),
            calls=("slow it",),
            gate=beaten,
            only=("workers_beat",),
            extra={"again": True},  # its lease is short, and a busy machine may lose it
        ),
        Flow(
            "shutdown",
            stopping,
            prepare=three_slow,
            calls=("slow one", "slow two", "slow three"),
            only=("return", "leave", "release", "counters"),
        ),
        Flow(
            "replay", replaying, prepare=buried, again=unless_told(replaying), effects=("flaky it",)
        ),
        Flow("send", sending("/ok/1"), again=unless_told(sending("/ok/1")), messages=("/ok/1",)),
        Flow("relay-ok", relaying, prepare=sending("/ok/1", "/ok/2"), messages=("/ok/1", "/ok/2")),
        Flow(
            "relay-failed",
            relaying,
            prepare=sending("/busy/1", "/gone/1"),
            messages=("/busy/1", "/gone/1"),
            dead=("/gone/1",),
        ),
        Flow(
            "prune",
            pruning,
            prepare=old_and_new,
            again=pruned_and_asked,
            effects=tuple(f"{name} evt_{n}" for name in ("book", "follow") for n in (1, 2, 3)),
            messages=tuple(f"/ok/evt_{n}" for n in (1, 2, 3)),
            events=("evt_2",),
            # They may go once their work is done, and not before.
            extra={"over": ["evt_1", "evt_3"]},
        ),
        Flow("cron", working, make=scheduled, extra={"slots": True}),
        # Beside a migrator that stands still others wait: that is what its lock is for.
        Flow("migrate", migrating, again=unless_told(migrating), empty=True, without=("pause",)),
    )
}
