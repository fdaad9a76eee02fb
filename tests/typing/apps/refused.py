"""Mistakes that a checker must find: one on each line that is marked, and none on the others."""

import asyncio
import os

from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

import duly
from duly import aio

engine = create_engine("sqlite:///shop.db")
app = duly.Duly(begin=sessionmaker(engine))
duly.Duly(begin=engine)  # refused: an engine is no sessionmaker
duly.Duly(begin=Session(engine))  # refused: one session cannot serve every handler
duly.Duly(begin="default")  # refused: duly.django.database("default")
app.source("stripe", secret=os.environ.get("SECRET"))  # refused: it may be None
app.source("github", secret=5)  # refused


class Charge:
    """An object of a library."""


def charge(key: str) -> Charge:
    return Charge()


async def charge_later(key: str) -> str:
    return key


@app.job
def pay(job: duly.Job) -> None:
    job.effect("charge", charge)  # refused: it cannot be stored
    job.effect("charge", charge_later)  # refused: nothing awaits it
    number: int = job.effect("charge", lambda key: key)  # refused: it is a str
    job.effect("charge", lambda key: 1, unknown="maybe")  # refused
    print(number)


@app.job
async def pay_later(job: aio.Job) -> None:
    number: int = await job.effect("charge", charge_later)  # refused: it is a str
    print(number, job.http.get("https://api.example").status_code)  # refused: no await


@app.on("stripe")
def record(event: duly.Event, tx: duly.Tx) -> None:
    tx.session.no_such_method()  # refused
    tx.enqueue(pay, event.json, keey="a")  # refused: it is key=
    tx.send("https://api.example", json={"a": 1}, retries=3)  # refused: it is attempts=
    tx.enqueue(pay, {1, 2})  # refused: a set is no JSON


def join(session: Session, later: AsyncSession, tx: duly.Tx) -> None:
    app.enqueue(pay, tx=engine)  # refused: an engine is no transaction
    app.enqueue(pay, tx=later)  # refused: it is awaited
    asyncio.run(app.aio.enqueue(pay, tx=session))  # refused: it blocks
    asyncio.run(app.aio.enqueue(pay, tx=tx))  # refused: it blocks


async_sessionmaker(create_async_engine("sqlite+aiosqlite:///shop.db"))
