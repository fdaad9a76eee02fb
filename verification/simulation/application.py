"""The application that the schedules run: its sources, its handlers, and what they do to the world.

Handlers of every kind, each as a user would write it: in a transaction and without, awaited and on
a thread, inline, ordered, with an effect outside, with a message to send and child jobs that are
done in batches.
"""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from duly import Backoff, Duly, Provider
from duly.webhooks.schemes.hmac import Hmac
from verification.simulation.hosts import HOST, Unwatched
from verification.simulation.running import here
from verification.simulation.scene import Declined

if TYPE_CHECKING:
    from duly import Event
    from duly.core.json_bytes import Json
    from duly.jobs.job import AsyncJob, Job
    from duly.jobs.tx import AsyncTx, Tx
    from duly.outbox.message import Message
    from verification.simulation.scene import Scene

SECRET = "a secret that everybody knows"
SIGNED = Provider(
    "signed", scheme=Hmac(header="X-Signature"), id="body:id", type="body:type",
    retry_horizon=timedelta(0), tolerance=None,
)  # fmt: skip
UNSIGNED = Provider(
    "unsigned", scheme=Hmac(header="X-Signature"), id="header:X-Id", type="body:type",
    retry_horizon=timedelta(0), tolerance=None,
)  # fmt: skip
SOON = Backoff(first=timedelta(milliseconds=300), factor=2, cap=timedelta(seconds=1))
# How long one run may take: the lock of a transaction is everybody's.
LOCKING = timedelta(seconds=3)
RUNNING = timedelta(seconds=4)
# How long the source that forgets soon remembers.
BRIEF = timedelta(seconds=8)
EFFECT = "INSERT INTO effects VALUES (:event, :handler, :job, :epoch, :amount)"
COUNT = "UPDATE counter SET n = n + :amount"


def scene() -> Scene:
    """What the world has in store for the code that runs."""
    return here().world.scene


class SimulatedDuly(Duly):
    """An application that takes ids and time from the schedule that plays."""

    _host = HOST


@lru_cache(maxsize=1)
def application() -> Duly:
    """The application, built once: a crash of a process does not change a program's text."""
    app = SimulatedDuly("sqlite:///simulation.db")  # the file is never opened
    app.registries.outbox.relay_liveness = Unwatched(HOST)
    app.source("shop", provider=SIGNED, secret=SECRET)
    app.source("hook", provider=UNSIGNED, secret=SECRET)
    app.source("till", provider=SIGNED, secret=SECRET, inline=True)
    app.source("brief", provider=SIGNED, secret=SECRET, window=BRIEF, body_retention=BRIEF)
    for pattern in ("paid", "both"):
        app.on("shop", pattern, name="pay", timeout=LOCKING, backoff=SOON, refetch=look_up)(pay)
    for pattern in ("told", "both"):
        app.on("shop", pattern, name="charge", timeout=RUNNING, backoff=SOON)(charge)
    app.on("shop", "state", name="follow", order=("object", "version"), timeout=LOCKING,
           backoff=SOON)(follow)  # fmt: skip
    app.on("hook", "*", name="hooked", timeout=LOCKING, backoff=SOON, refetch=look_up_blocking)(
        hooked
    )
    app.on("till", "*", name="ring")(ring)
    app.on("brief", "*", name="pay", timeout=LOCKING, backoff=SOON)(pay)
    app.job(name="child", many=5, attempts=4, timeout=LOCKING, backoff=SOON)(child)
    app.transport("world", timeout=timedelta(seconds=3), concurrency=2, backoff=SOON)(world)
    return app


async def pay(event: Event, job: AsyncJob, tx: AsyncTx) -> None:
    """Write, count, enqueue and send, all in one transaction with the end of the job."""
    plan = scene().plan(event, "pay")
    await plan.begin(job)
    await tx.execute(EFFECT, **effect(event, "pay", job))
    await tx.execute(COUNT, amount=amount(event))
    await plan.middle(job)
    await tx.enqueue("child", {"parent": job.id}, key=f"child of {job.id}")
    await tx.send("world:ledger", json={"job": job.id, "amount": amount(event)})
    plan.end(job)


async def look_up(event: Event) -> None:
    """Before the transaction begins, and while the lease is held."""
    await scene().plan(event, "pay").last()


def look_up_blocking(event: Event) -> None:
    """The same on a thread."""
    scene().plan(event, "hooked").last_blocking()


async def charge(event: Event, job: AsyncJob) -> None:
    """Take a step outside, once as far as that is possible, and no transaction."""
    plan = scene().plan(event, "charge")
    await plan.begin(job)
    if not plan.late:
        await plan.last()
    await job.effect("charge", charged, unknown=plan.unknown(), not_done=(Declined,))
    if plan.late:
        await plan.last()
    plan.end(job)


async def charged(key: str) -> Json:
    """Ask the bank."""
    return {"charge": await scene().charge(key)}


async def follow(event: Event, job: AsyncJob, tx: AsyncTx) -> None:
    """Apply a version of an object, never an older one after a newer one."""
    plan = scene().plan(event, "follow")
    await plan.begin(job)
    await tx.execute(
        "INSERT INTO applied VALUES (:object, :version, :event)",
        object=event.json["object"],
        version=event.json["version"],
        event=event.id,
    )
    await tx.execute(EFFECT, **effect(event, "follow", job))
    await tx.execute(COUNT, amount=amount(event))
    plan.end(job)


def hooked(event: Event, job: Job, tx: Tx) -> None:
    """The same as `pay` on a thread."""
    plan = scene().plan(event, "hooked")
    plan.begin_blocking(job)
    tx.execute(EFFECT, **effect(event, "hooked", job))
    tx.execute(COUNT, amount=amount(event))
    tx.send("world:ledger", json={"job": job.id, "amount": amount(event)})
    plan.end(job)


async def ring(event: Event, tx: AsyncTx) -> None:
    """Inside of the transaction that accepts the event."""
    plan = scene().plan(event, "ring")
    await plan.begin(None)
    await tx.execute(EFFECT, **effect(event, "ring", None))
    await tx.execute(COUNT, amount=amount(event))
    await tx.send("world:ledger", json={"job": event.id, "amount": amount(event)})
    plan.end(None)


async def child(jobs: list[AsyncJob], tx: AsyncTx) -> None:
    """What parents enqueued in their transactions, or a clerk by a key: as many as are there."""
    for job in jobs:
        await scene().pause("child")
        await tx.execute(EFFECT, event=job.payload["parent"], handler="child", job=job.id,
                         epoch=epoch(job), amount=1)  # fmt: skip
    await tx.execute(COUNT, amount=len(jobs))
    if len(jobs) > 1:
        scene().world.seen["batches that came to their end"] += 1
        scene().fail_batch()


async def world(message: Message, key: str) -> None:
    """The outside world takes a message."""
    await scene().deliver(message, key)


def effect(event: Event, handler: str, job: AsyncJob | Job | None) -> dict[str, Any]:
    """The row that says what was done, and by which lease."""
    return {
        "event": event.id,
        "handler": handler,
        "job": None if job is None else job.id,
        "epoch": 0 if job is None else epoch(job),
        "amount": amount(event),
    }


def epoch(job: AsyncJob | Job) -> int:
    """Of the lease that runs; a user never needs to know."""
    return job._leased.lease.epoch


def amount(event: Event) -> int:
    """What the event is about."""
    return int(event.json["amount"])
