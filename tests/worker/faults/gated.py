"""A worker whose handlers stop at a gate: `python -m tests.worker.faults.gated URL LEASE GATE`.

It prints where its handlers stand and what it logs, a line each. The gate is open or closed at the
start; a line on its input opens it.
"""

import asyncio
import json
import logging
import os
import sys
import threading
from datetime import timedelta
from typing import Any

import duly
from duly.jobs.job import AsyncJob, Job
from duly.jobs.tx import AsyncTx
from tests.receiver.faults.shops import SECRET
from tests.worker.faults.kinds import EFFECT, Pen

MODULE = "tests.worker.faults.gated"
# On SQLite a silent worker is believed for its lease and the longest timeout of a tx handler.
TIMEOUT = timedelta(seconds=2)
PATIENT = timedelta(minutes=1)
ACCOUNT = "UPDATE accounts SET balance = balance - 1"


class Gate:
    """Where handlers wait, and say that they do."""

    def __init__(self, *, opened: bool) -> None:
        self._open = threading.Event()
        if opened:
            self._open.set()

    def open(self) -> None:
        self._open.set()

    def passed(self) -> None:
        """Say so, and wait."""
        say("at the gate")
        self._open.wait()

    async def passed_awaited(self) -> None:
        """The same on an event loop, which goes on meanwhile."""
        await asyncio.to_thread(self.passed)


class Telling(logging.Handler):
    """Says what duly logs."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def patience(app: duly.Duly) -> timedelta:
    return PATIENT if app.store.capabilities.concurrent_writers else TIMEOUT


def say(words: str) -> None:
    os.write(1, json.dumps(words).encode() + b"\n")  # in one piece: many threads talk


def gated(url: str, gate: Gate) -> duly.Duly:
    """An application whose handlers pass the gate once they have done half of their work."""
    app = duly.Duly(url)
    app.source("shop", secret=SECRET, provider="standard-webhooks")
    add_blocking(app, gate, Pen(url))
    add_awaited(app, gate, Pen(url))
    add_fetching(app, gate)
    return app


def add_blocking(app: duly.Duly, gate: Gate, pen: Pen) -> None:
    """Handlers on threads."""

    @app.job(name="tx sync", timeout=patience(app))
    def inside(job: Job, tx: duly.Tx) -> None:
        tx.execute(EFFECT, job=job.id, worker=str(os.getpid()))
        gate.passed()

    @app.job(name="leased sync")
    def leased(job: Job) -> None:
        gate.passed()
        job.effect("charge", lambda _: pen.write(job.id))

    @app.job(name="plain")
    def plain(job: Job) -> None:
        gate.passed()
        pen.write(job.id)

    @app.job(name="quick")
    def quick(job: Job) -> None:
        pen.write(job.id)

    @app.job(name="bulk sync", many=10, timeout=patience(app))
    def bulk(jobs: list[Job], tx: duly.Tx) -> None:
        for job in jobs:
            tx.execute(EFFECT, job=job.id, worker=f"{os.getpid()} of {len(jobs)}")
        gate.passed()

    @app.job(name="account", timeout=TIMEOUT)
    def account(job: Job, tx: duly.Tx) -> None:
        tx.execute(ACCOUNT)
        tx.execute(EFFECT, job=job.id, worker=str(os.getpid()))
        gate.passed()


def add_awaited(app: duly.Duly, gate: Gate, pen: Pen) -> None:
    """The same in tasks."""

    @app.job(name="tx async", timeout=patience(app))
    async def inside(job: AsyncJob, tx: AsyncTx) -> None:
        await tx.execute(EFFECT, job=job.id, worker=str(os.getpid()))
        await gate.passed_awaited()

    @app.job(name="bulk async", many=10, timeout=patience(app))
    async def bulk(jobs: list[AsyncJob], tx: AsyncTx) -> None:
        for job in jobs:
            await tx.execute(EFFECT, job=job.id, worker=f"{os.getpid()} of {len(jobs)}")
        await gate.passed_awaited()

    async def charge(job: str) -> None:
        await asyncio.to_thread(pen.write, job)

    @app.job(name="leased async")
    async def leased(job: AsyncJob) -> None:
        await gate.passed_awaited()
        await job.effect("charge", lambda _: charge(job.id))


def add_fetching(app: duly.Duly, gate: Gate) -> None:
    """Webhook handlers, which pass the gate before their transaction begins."""

    def fetch(event: duly.Event) -> Any:
        gate.passed()

    async def fetch_awaited(event: duly.Event) -> Any:
        await gate.passed_awaited()

    @app.on("shop", "sync", name="fetched sync", refetch=fetch, timeout=TIMEOUT)
    def fetched(job: Job, tx: duly.Tx) -> None:
        tx.execute(EFFECT, job=job.id, worker=str(os.getpid()))

    @app.on("shop", "async", name="fetched async", refetch=fetch_awaited, timeout=TIMEOUT)
    async def fetched_awaited(job: AsyncJob, tx: AsyncTx) -> None:
        await tx.execute(EFFECT, job=job.id, worker=str(os.getpid()))


def listen(gate: Gate) -> None:
    for _ in sys.stdin:
        gate.open()


def main(url: str, lease: str, position: str) -> None:
    logging.getLogger("duly").addHandler(Telling())
    gate = Gate(opened=position == "open")
    threading.Thread(target=listen, args=[gate], daemon=True).start()
    gated(url, gate).work(until="stopped", lease=timedelta(seconds=float(lease)))


if __name__ == "__main__":
    main(*sys.argv[1:])
