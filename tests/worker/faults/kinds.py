"""Jobs of every fate, and a worker for them: `python -m tests.worker.faults.kinds URL LEASE`.

Each kind says how its jobs must end, whatever happens to the processes that run them.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal, NamedTuple

import duly
from duly.jobs.job import AsyncJob, Job
from duly.jobs.tx import AsyncTx
from tests.support.processes.effects import Side

EFFECT = "INSERT INTO effects VALUES (:job, :worker)"
# Longer than any run takes on a busy machine, and than SQLite's lock is waited for.
TIMEOUT = timedelta(seconds=8)
QUICK = duly.Backoff(first=timedelta(milliseconds=50))


class Kind(NamedTuple):
    """How jobs of one handler end: their attempts, their rescues if dead, their effects."""

    name: str
    ends: Literal["done", "dead"]
    attempts: int
    effects: Literal["once", "at least once", "none"]
    rescues: int | None = None


KINDS = {
    kind.name: kind
    for kind in (
        Kind("ship", "done", 1, "once"),
        Kind("ship_awaited", "done", 1, "once"),
        Kind("mail", "done", 1, "at least once"),
        Kind("mail_awaited", "done", 1, "at least once"),
        Kind("look", "done", 1, "none"),
        Kind("flaky", "done", 2, "once"),
        Kind("flaky_mail", "done", 2, "at least once"),
        Kind("order", "done", 1, "once"),
        Kind("invoice", "done", 1, "once"),
        Kind("sell", "done", 1, "once"),
        Kind("sell_awaited", "done", 1, "once"),
        Kind("hopeless", "dead", 2, "none"),
        Kind("doomed", "dead", 1, "none"),
        Kind("poison", "dead", 0, "none", rescues=5),
    )
}


class Pen:
    """Writes effects on connections of the user's own, one for each thread."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._local = threading.local()

    def write(self, job: str) -> None:
        side = getattr(self._local, "side", None)
        if side is None:
            side = self._local.side = Side(self._url)
        side.work(job, str(os.getpid()))


def workshop(url: str) -> duly.Duly:
    """An application with a handler for each kind."""
    app = duly.Duly(url)
    add_inside(app)
    add_bulk(app)
    add_leased(app, Pen(url))
    add_failing(app)
    return app


def add_inside(app: duly.Duly) -> None:
    """Handlers whose effect is in one COMMIT with their end."""

    @app.job(name="ship", timeout=TIMEOUT)
    def ship(job: Job, tx: duly.Tx) -> None:
        write(tx, job)

    @app.job(name="ship_awaited", timeout=TIMEOUT)
    async def ship_awaited(job: AsyncJob, tx: AsyncTx) -> None:
        await tx.execute(EFFECT, job=job.id, worker=str(os.getpid()))

    @app.job(name="order", timeout=TIMEOUT)
    def order(job: Job, tx: duly.Tx) -> None:
        write(tx, job)
        tx.enqueue("invoice", {"of": job.id})

    @app.job(name="invoice", timeout=TIMEOUT)
    def invoice(job: Job, tx: duly.Tx) -> None:
        write(tx, job)

    @app.job(name="flaky", attempts=2, timeout=TIMEOUT, backoff=QUICK)
    def flaky(job: Job, tx: duly.Tx) -> None:
        write(tx, job)
        if job.attempt == 1:
            raise ValueError("not the first time")


def add_bulk(app: duly.Duly) -> None:
    """Handlers of many jobs, of which every sixteenth fails its batch, and not alone."""

    @app.job(name="sell", many=20, timeout=TIMEOUT)
    def sell(jobs: list[Job], tx: duly.Tx) -> None:
        for job in jobs:
            write(tx, job)
        refuse_batch(jobs)

    @app.job(name="sell_awaited", many=20, timeout=TIMEOUT)
    async def sell_awaited(jobs: list[AsyncJob], tx: AsyncTx) -> None:
        for job in jobs:
            await tx.execute(EFFECT, job=job.id, worker=str(os.getpid()))
        refuse_batch(jobs)


def refuse_batch(jobs: Sequence[Job] | Sequence[AsyncJob]) -> None:
    """Fail for a job whose id ends in 0, unless it is alone."""
    if len(jobs) > 1 and any(job.id.endswith("0") for job in jobs):
        raise ValueError("not in a batch")


def add_leased(app: duly.Duly, pen: Pen) -> None:
    """Handlers whose effect is committed before their end: a kill in between repeats it."""

    @app.job(name="mail")
    def mail(job: Job) -> None:
        pen.write(job.id)

    @app.job(name="mail_awaited")
    async def mail_awaited(job: AsyncJob) -> None:
        await asyncio.to_thread(pen.write, job.id)

    @app.job(name="look")
    async def look(job: AsyncJob) -> None:
        return None

    @app.job(name="flaky_mail", attempts=2, backoff=QUICK)
    def flaky_mail(job: Job) -> Any:
        if job.attempt == 1:
            return duly.Retry(reason="not the first time")
        return pen.write(job.id)


def add_failing(app: duly.Duly) -> None:
    """Handlers that never succeed, and leave nothing of what they wrote."""

    @app.job(name="hopeless", attempts=2, timeout=TIMEOUT, backoff=QUICK)
    async def hopeless(job: AsyncJob, tx: AsyncTx) -> None:
        await tx.execute(EFFECT, job=job.id, worker=str(os.getpid()))
        raise ValueError("never")

    @app.job(name="doomed", timeout=TIMEOUT)
    def doomed(job: Job, tx: duly.Tx) -> None:
        write(tx, job)
        raise ValueError("never, and only one attempt")

    @app.job(name="poison", timeout=TIMEOUT)
    def poison(job: Job, tx: duly.Tx) -> None:
        write(tx, job)
        os.kill(os.getpid(), signal.SIGKILL)


def write(tx: duly.Tx, job: Job) -> None:
    tx.execute(EFFECT, job=job.id, worker=str(os.getpid()))


def main(url: str, lease: str) -> None:
    workshop(url).work(until="stopped", lease=timedelta(seconds=float(lease)))


if __name__ == "__main__":
    main(*sys.argv[1:])
