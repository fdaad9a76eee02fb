"""The steps of the flows, as awaited verbs of a bench."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg

from duly.core.defaults import PRUNE_CHUNK
from duly.core.onestep import finish
from duly.service.maintenance import PRUNERS
from duly.worker.settings import worker_settings
from verification.crash_matrix.bench import LEASE, Bench, Delivery

if TYPE_CHECKING:
    from verification.crash_matrix.places import Place

Part = Callable[[Bench, "Place"], Awaitable[None]]
ONE, TWO, THREE = (Delivery("orders", f"evt_{number}") for number in (1, 2, 3))
INLINE, KEPT = Delivery("counter", "evt_9"), Delivery("ledger", "evt_7")
PUSH, FORGED = Delivery("hub", "id_1"), Delivery("hub", "id_1", amount=1_000_000)
# Signed with a secret that is not ours.
FAKE = Delivery("orders", "evt_fake", secret="whsec_" + "AAAA" * 8)
SHORT, GRACE = timedelta(seconds=3), timedelta(seconds=10)
BEATS, PATIENCE, ATTEMPTS = 3, 10.0, 3


async def nothing(bench: Bench, place: Place) -> None:
    """There is nothing to prepare, or nothing that anybody does again."""


def open_gate(bench: Bench, place: Place) -> None:
    """Hold nothing."""


def delivering(*deliveries: Delivery) -> Part:
    """Send these."""

    async def deliver(bench: Bench, place: Place) -> None:
        await bench.deliver(*deliveries)

    return deliver


def delivering_again(*deliveries: Delivery) -> Part:
    """Send those whose last answer was not 2xx; the senders of others are through with them."""

    async def deliver(bench: Bench, place: Place) -> None:
        last = {
            (reply["source"], reply["id"], reply["body"]): reply["status"]
            for reply in bench.terms.journal.of("reply")
        }
        asked = [each for each in deliveries if not 200 <= last.get(each.named, 0) < 300]
        await bench.deliver(*asked)

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


def selling(*names: str) -> Part:
    """Ask for jobs of the bulk handler, which make one batch."""

    async def sell(bench: Bench, place: Place) -> None:
        for name in names:
            await bench.enqueue("sell", name, key=f"sell-{name}")

    return sell


async def working(bench: Bench, place: Place) -> None:
    """A worker, until there is nothing to do."""
    await bench.work()


async def working_through(bench: Bench, place: Place) -> None:
    """Workers, until the last attempt is over: one that met a fault may leave it to the next."""
    for _ in range(ATTEMPTS):
        await bench.work()
        with suppress(psycopg.OperationalError):  # a server that was struck down is not back yet
            if place.rows("SELECT count(*) FROM duly_jobs WHERE state <> 'dead'") == [(0,)]:
                return
        time.sleep(0.02)  # noqa: ASYNC251  # nothing else is going on


async def relaying(bench: Bench, place: Place) -> None:
    """A relay, until there is nothing to send."""
    await bench.relay()


async def abandoned(bench: Bench, place: Place) -> None:
    """A job that was leased by a worker which is gone."""
    await bench.enqueue("follow", "it")
    place.rows(
        "UPDATE duly_jobs SET state = 'leased', epoch = 1, token = "
        + ("randomblob(16)" if place.url.startswith("sqlite") else "uuid_send(gen_random_uuid())")
    )


async def old_and_new(bench: Bench, place: Place) -> None:
    """Two events whose time is over, one of them with work left, and a new one."""
    await bench.deliver(ONE)
    await bench.work()
    await bench.relay()
    await bench.deliver(THREE)
    over = past(place)
    columns = ("body_until", "expires_at", "due_at")
    place.rows("UPDATE duly_events SET " + ", ".join(f"{column} = {over}" for column in columns))
    place.rows(f"UPDATE duly_claims SET expires_at = {over}")
    await bench.deliver(TWO)


async def come_back(bench: Bench, place: Place) -> None:
    """A job that came back from a worker which is gone, and whose time has come."""
    await abandoned(bench, place)
    await bench.work()
    place.rows(f"UPDATE duly_jobs SET run_at = {past(place)}")


def past(place: Place) -> str:
    """A moment that is over."""
    return "1" if is_sqlite(place) else "now() - interval '1 day'"


async def closed_windows(bench: Bench, place: Place) -> None:
    """A job whose key is free again."""
    await bench.enqueue("follow", "it", key="window")
    await bench.work()
    place.rows(f"UPDATE duly_claims SET expires_at = {past(place)}")


async def asking_anew(bench: Bench, place: Place) -> None:
    """The next job under this key."""
    await bench.enqueue("follow", "again", key="window")


async def slot_due(bench: Bench, place: Place) -> None:
    """A schedule that is known, and whose last slot is still to come."""
    await bench.work()
    [(slot,)] = place.rows("SELECT slot FROM duly_schedules")
    seen = slot if isinstance(slot, datetime) else datetime.fromtimestamp(slot / 1e6, UTC)
    first = seen.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    before = first - timedelta(microseconds=1)
    value = int(first.timestamp()) * 1_000_000 - 1 if is_sqlite(place) else f"'{before}'"
    place.rows(f"UPDATE duly_schedules SET slot = {value}")
    bench.terms.journal.write("slot", first=first.isoformat())


async def pruned_and_asked(bench: Bench, place: Place) -> None:
    """Remove what is old once more; what is not must still be known."""
    await pruning(bench, place)
    await bench.deliver(TWO)


async def beating(bench: Bench, place: Place) -> None:
    """A worker whose heart has to beat while its job is at work."""
    await bench.work(lease=SHORT)


def beaten(bench: Bench, place: Place) -> None:
    """Hold the job until the heart has beaten twice; a heart that stands still loses its job."""
    seen: set[Any] = set()
    until = time.monotonic() + PATIENCE
    while len(seen) < BEATS:
        if time.monotonic() > until:
            bench.terms.journal.write("odd", problem="the heart of a living worker stands still")
            return
        beats = place.rows("SELECT seen_at FROM duly_workers")
        if seen and not beats and was_cancelled(bench):  # it has left, as it should
            return
        seen.update(beats)
        time.sleep(0.02)


def was_cancelled(bench: Bench) -> bool:
    """Whether the fault that struck was a cancellation; any other leaves a worker where it was."""
    return any(struck["fault"] == "cancel" for struck in bench.terms.journal.of("struck"))


# Set when a worker has been told to end; each process of the matrix has its own.
TOLD_TO_END = threading.Event()


def until_told_to_end(bench: Bench, place: Place) -> None:
    """Hold the job until its worker has heard that it is to end."""
    TOLD_TO_END.wait(PATIENCE)


async def stopping(bench: Bench, place: Place) -> None:
    """A worker that is told to end with a job at work and others in its hands."""
    if bench.is_sync:
        asyncio.run(stopped(bench))
    else:
        await stopped(bench)


async def stopped(bench: Bench) -> None:
    """Work, and stop as soon as the first job runs."""
    worker = bench.app.process.worker(worker_settings(1, ["default"], LEASE, GRACE))
    running = asyncio.create_task(worker.run("stopped"))
    try:
        while not running.done() and not bench.terms.journal.of("call"):  # noqa: ASYNC110  # a file
            await asyncio.sleep(0.01)
        worker.stop()
        TOLD_TO_END.set()
        await running
    finally:
        TOLD_TO_END.set()
        if bench.is_sync:
            await bench.app.process.release_loop()


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
            finish(prune(bench.app.store.sync_runner, PRUNE_CHUNK))
        else:
            await prune(bench.app.store.async_runner, PRUNE_CHUNK)


async def migrating(bench: Bench, place: Place) -> None:
    """Make the tables."""
    bench.app.store.migrate()
