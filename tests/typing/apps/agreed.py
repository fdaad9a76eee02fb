"""What a checker must know about the types of an application with SQLAlchemy and httpx."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import timedelta
from typing import TYPE_CHECKING, TypedDict, assert_type

import httpx
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

import duly
from duly import aio

if TYPE_CHECKING:
    import sqlite3

    import aiosqlite
    import psycopg
    from django.db.backends.base.base import BaseDatabaseWrapper
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, async_scoped_session
    from sqlalchemy.orm import scoped_session

app = duly.Duly(begin=sessionmaker(create_engine("sqlite:///shop.db")))
later = duly.Duly(begin=async_sessionmaker(create_async_engine("sqlite+aiosqlite:///shop.db")))
django = duly.Duly(begin=duly.django.database("default"))
for each in (app, later):
    each.source("one", provider="stripe", secret="whsec_a")
    each.source("several", provider="stripe", secret=["whsec_a", duly.Secret("whsec_b")])
    each.source("named", provider="stripe", secret={"old": "whsec_a", "new": b"b"})


class Charge(TypedDict):
    """What a payment provider answers."""

    id: str


def charge(key: str) -> Charge:
    return {"id": key}


def search(key: str) -> Charge | None:
    return {"id": key} if key else None


async def charge_later(key: str) -> Charge:
    return {"id": key}


async def search_later(key: str) -> Charge | None:
    return {"id": key} if key else None


class OwnSession(Session):
    """A subclass, as SQLModel has one."""

    def only_here(self) -> int:
        return 1


@app.job(attempts=3)
def pay(job: duly.Job) -> None:
    assert_type(job.effect("charge", charge), Charge)
    assert_type(job.effect("charge", charge, unknown=search), Charge)
    assert_type(job.effect("count", lambda key: len(key)), int)
    assert_type(job.effect("names", lambda key: [key], unknown="park"), list[str])
    assert_type(job.http.post("https://api.example", key="charge", json={}), httpx.Response)
    assert_type(job.http.get("https://api.example").status_code, int)
    streamed: AbstractContextManager[httpx.Response] = job.http.stream("GET", "https://a.example")
    assert streamed
    httpx.Client(transport=job.http.transport(key="charge"))


@later.job(attempts=3)
async def pay_later(job: aio.Job) -> None:
    assert_type(await job.effect("charge", charge_later), Charge)
    assert_type(await job.effect("charge", charge_later, unknown=search_later), Charge)
    assert_type(await job.http.post("https://api.example", key="charge"), httpx.Response)
    assert_type((await job.http.get("https://api.example")).status_code, int)
    streamed: AbstractAsyncContextManager[httpx.Response] = job.http.stream(
        "GET", "https://a.example"
    )
    assert streamed


@app.on("one", "*")
def record(event: duly.Event, tx: duly.Tx) -> None:
    session: Session = tx.session
    tx.session.flush()
    assert_type(tx.enqueue(pay, {"order": event.id}, key=event.id), duly.types.Enqueued)
    assert_type(tx.enqueue_many(pay, [charge("a")], delay=timedelta(1)), list[duly.types.Enqueued])
    assert_type(tx.send("https://api.example", json=charge("a"), attempts=3), duly.types.Staged)
    app.enqueue(pay, tx=session)
    helper(tx)


def helper(tx: duly.Tx[Session]) -> None:
    tx.session.flush()


@later.on("one", "*")
async def record_later(event: duly.Event, tx: aio.Tx) -> None:
    session: AsyncSession = tx.session
    await tx.session.flush()
    assert_type(await tx.enqueue(pay_later, {"order": event.id}, key=event.id), duly.types.Enqueued)
    assert_type(await tx.send("https://api.example", json={"a": 1}), duly.types.Staged)
    await later.aio.enqueue(pay_later, tx=session)


@app.on("several", "own")
def record_in_own(tx: duly.Tx[OwnSession]) -> None:
    assert_type(tx.session, OwnSession)
    assert_type(tx.session.only_here(), int)


@django.job
def record_in_django(tx: duly.Tx[BaseDatabaseWrapper]) -> None:
    assert_type(tx.session.vendor, str)


def join_blocking(
    sqlite: sqlite3.Connection,
    postgres: psycopg.Connection,
    connection: Connection,
    session: Session,
    scoped: scoped_session[Session],
    wrapper: BaseDatabaseWrapper,
    tx: duly.Tx,
) -> None:
    app.enqueue(pay, tx=sqlite)
    app.enqueue(pay, tx=postgres)
    app.enqueue(pay, tx=connection)
    app.enqueue(pay, tx=session)
    app.enqueue_many(pay, [{"order": 1}], tx=scoped)
    app.send("https://api.example", tx=wrapper)
    app.send("https://api.example", tx=tx)


async def join_awaited(
    sqlite: aiosqlite.Connection,
    postgres: psycopg.AsyncConnection,
    connection: AsyncConnection,
    session: AsyncSession,
    scoped: async_scoped_session[AsyncSession],
    tx: aio.Tx,
) -> None:
    await app.aio.enqueue(pay, tx=sqlite)
    await app.aio.enqueue(pay, tx=postgres)
    await app.aio.enqueue(pay, tx=connection)
    await app.aio.enqueue(pay, tx=session)
    await app.aio.enqueue_many(pay, [{"order": 1}], tx=scoped)
    await app.aio.send("https://api.example", tx=tx)


@app.signer("ours")
def sign(message: duly.types.Message) -> dict[str, str]:
    return {"X-Id": message.id}


app.signer("standard", secret="whsec_" + "A" * 32)


@app.cron("*/5 * * * *")
def clean(job: duly.Job) -> None:
    assert_type(job.attempt, int)


def use_the_ledger(store: duly.types.Store) -> None:
    assert_type(duly.fence(store, "a", "b", lambda: charge("a")), Charge)


async def use_the_ledger_later(store: duly.types.Store) -> None:
    async def work() -> Charge:
        return charge("a")

    assert_type(await aio.fence(store, "a", "b", work), Charge)
