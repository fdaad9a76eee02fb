"""An application in an environment that has duly and nothing else."""

import os
import sqlite3
from contextlib import closing

import duly
from duly import aio

app = duly.Duly("sqlite:///shop.db")
app.source("stripe", secret=os.environ["STRIPE_WEBHOOK_SECRET"])


def charge(key: str) -> dict[str, str]:
    """Where a payment provider would be called."""
    return {"charge": key}


async def charge_later(key: str) -> dict[str, str]:
    """The same, awaited."""
    return charge(key)


@app.job(attempts=3)
def pay(job: duly.Job) -> None:
    """A job that blocks."""
    receipt = job.effect("charge", charge)
    print(receipt["charge"].upper())


@app.job(attempts=3)
async def pay_later(job: aio.Job) -> None:
    """A job that is awaited."""
    receipt = await job.effect("charge", charge_later, unknown="park")
    print(receipt["charge"].upper())


@app.on("stripe", "invoice.*")
def record(event: duly.Event, tx: duly.Tx) -> None:
    """An event, in a transaction that blocks."""
    tx.execute("INSERT INTO paid VALUES (:id)", id=event.id)
    tx.enqueue(pay, {"event": event.id}, key=event.id)
    tx.send("https://api.example", json={"event": event.id}, key=event.id)


@app.on("stripe", "charge.*")
async def record_later(event: duly.Event, tx: aio.Tx) -> None:
    """An event, in a transaction that is awaited."""
    rows = await tx.execute("SELECT id FROM paid")
    print(len(rows))
    await tx.enqueue(pay_later, {"event": event.id}, key=event.id)


@app.cron("*/5 * * * *")
def clean(job: duly.Job) -> None:
    """A schedule."""
    print(job.attempt)


with closing(sqlite3.connect("shop.db")) as connection:
    app.enqueue(pay, {"order": 1}, tx=connection)
    app.send("https://api.example", json={"order": 1}, tx=connection)
    connection.commit()

with app.transaction() as transaction:
    transaction.enqueue(pay)
