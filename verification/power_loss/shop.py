"""The application that is cut off: every kind of work that duly does, each leaving a trace.

Its table of effects has no unique constraint, and a total beside it grows by one with each row, so
that nothing done twice can hide.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import duly

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # of nobody
SOON = duly.Backoff(first=timedelta(milliseconds=1), factor=1, cap=timedelta(milliseconds=1))
EFFECT = "INSERT INTO effects (kind, name) VALUES (:kind, :name)"
TOTAL = "UPDATE totals SET n = n + 1"
TABLES = (
    "CREATE TABLE IF NOT EXISTS effects (kind TEXT NOT NULL, name TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS totals (n INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS repairs (name TEXT NOT NULL)",
    "INSERT INTO totals SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM totals)",
)
# A job may be rescued five times, with waits of minutes; nothing here needs more turns than that.
TURNS = 30


class Clock:
    """The time of this machine, moved by as much as a flow likes."""

    def __init__(self, ahead: timedelta = timedelta(0)) -> None:
        self.ahead = ahead

    def __call__(self) -> datetime:
        """The time of the shop."""
        return datetime.now(UTC) + self.ahead


class World:
    """The file that stands for everybody outside: one write for each thing that they are told."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def tell(self, *words: str) -> None:
        """One line in one call, so that a record of the calls has it whole."""
        os.write(self._file, (" ".join(words) + "\n").encode())

    def close(self) -> None:
        """Say no more."""
        os.close(self._file)


def shop(
    url: str,
    tell: Callable[..., None],
    clock: Clock,
    *,
    scheduled: bool,
    durability: str = "required",
) -> duly.Duly:
    """The application on this database."""
    app = duly.Duly(url, clock=clock, durability=durability)
    app.source("orders", secret=SECRET, provider="standard-webhooks")
    app.source("till", secret=SECRET, provider="standard-webhooks", inline=True)
    add_handlers(app, tell)
    add_troubles(app)
    if scheduled:

        @app.cron("0 * * * *", missed="all", name="sweep")
        def sweep(job: duly.Job, tx: duly.Tx) -> None:
            done(tx, "sweep", job.payload["slot"])

    return app


def done(tx: duly.Tx, kind: str, name: str) -> None:
    """Leave an effect."""
    tx.execute(EFFECT, kind=kind, name=name)
    tx.execute(TOTAL)


def add_handlers(app: duly.Duly, tell: Callable[..., None]) -> None:
    """What goes well."""

    @app.job(name="pack", attempts=3)
    def pack(job: duly.Job, tx: duly.Tx) -> None:
        done(tx, "pack", job.payload["order"])

    @app.job(name="remind", attempts=3, backoff=SOON)
    def remind(job: duly.Job) -> None:
        name = job.payload["order"]
        job.effect("call", lambda key: tell("call", name, key))

    @app.on("orders", "paid", name="record")
    def record(event: duly.Event, tx: duly.Tx) -> None:
        done(tx, "record", event.id)
        tx.enqueue(pack, {"order": event.id})
        tx.send(f"mail:{event.id}", json={"order": event.id})

    @app.on("orders", "paid", name="charge")
    def charge(event: duly.Event, job: duly.Job) -> None:
        job.effect("charge", lambda key: tell("charge", event.id, key))

    @app.on("till", name="ring")
    def ring(event: duly.Event, tx: duly.Tx) -> None:
        done(tx, "ring", event.id)
        tx.enqueue(pack, {"order": event.id})

    @app.transport("mail", backoff=SOON)
    def mail(message: duly.types.Message, key: str) -> None:
        if message.attempt == 1 and message.to.startswith("moody"):
            raise ConnectionError("the line is bad")
        tell("mail", message.to, key)


def add_troubles(app: duly.Duly) -> None:
    """What fails: once, for ever, or until somebody has seen to it."""

    @app.on("orders", "moody", name="moody", backoff=SOON)
    def moody(event: duly.Event, job: duly.Job, tx: duly.Tx) -> None:
        done(tx, "moody", event.id)
        tx.send(f"mail:{event.id}", json={"order": event.id})
        if job.attempt == 1:
            raise ConnectionError("not today")

    @app.on("orders", "poison", name="poison", attempts=2, backoff=SOON)
    def poison(event: duly.Event, tx: duly.Tx) -> None:
        done(tx, "poison", event.id)
        raise ValueError("never")

    @app.on("orders", "broken", name="broken")
    def broken(event: duly.Event, tx: duly.Tx) -> None:
        if not tx.execute("SELECT name FROM repairs WHERE name = :name", name=event.id):
            raise duly.Dead("somebody must see to it first")
        done(tx, "broken", event.id)


class Restless(Exception):
    """There is still something to do, however often it was tried."""


def bring_to_rest(app: duly.Duly, clock: Clock, pause: timedelta) -> None:
    """Work and relay, and move the clock, until nothing is left to do."""
    for _ in range(TURNS):
        app.work()
        app.relay()
        if not left(app):
            return
        clock.ahead += pause
    raise Restless(f"{left(app)} jobs and messages are still to be done after {TURNS} turns")


def left(app: duly.Duly) -> int:
    """How many jobs and messages are neither done nor dead."""
    jobs, messages = app.jobs.stats().queues.values(), app.outbox.stats()
    at_work = sum(one.ready + one.waiting + one.leased for one in jobs)
    return at_work + messages.ready + messages.waiting + messages.leased
