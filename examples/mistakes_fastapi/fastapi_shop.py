"""A shop on FastAPI and SQLAlchemy: four handlers with a mistake, and two correct ones.

    cd examples/mistakes_fastapi
    duly prove fastapi_shop:app --event ../mistakes/events/points.json

Its route does something before duly is asked whether the event is new. To prove that, too, add
``--through fastapi_shop:api --path /partners``.
"""

import os
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI, Request
from sqlalchemy import create_engine, insert, make_url, select
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedAsDataclass, mapped_column

import duly
from duly import fastapi

HERE = Path(__file__).resolve().parent
URL = make_url(os.environ.get("SHOP_DATABASE", f"sqlite:///{HERE / 'shop.db'}"))
LITE = URL.drivername == "sqlite"
SECRET = "whsec_" + "c2hvcC1leGFtcGxlLXNlY3JldA=="  # development only


class Base(MappedAsDataclass, DeclarativeBase):
    """The shop's tables."""


class Account(Base):
    """What a customer has."""

    __tablename__ = "accounts"
    id: Mapped[int] = mapped_column(primary_key=True)
    balance: Mapped[int]


class Booking(Base):
    """An invoice that was paid."""

    __tablename__ = "bookings"
    invoice: Mapped[str]
    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default_factory=uuid.uuid4)
    at: Mapped[datetime] = mapped_column(
        default_factory=lambda: datetime.now(UTC).replace(tzinfo=None)
    )


class Refund(Base):
    """Money that was given back; its key is the event's."""

    __tablename__ = "refunds"
    event: Mapped[str] = mapped_column(primary_key=True)
    amount: Mapped[int]


class Visit(Base):
    """A partner that has called."""

    __tablename__ = "visits"
    partner: Mapped[str]
    id: Mapped[int] = mapped_column(primary_key=True, init=False)


def prepare() -> None:
    """Make the tables, and close the connections that this opened."""
    engine = create_engine(URL.set(drivername="sqlite" if LITE else "postgresql+psycopg"))
    Base.metadata.create_all(engine)
    with engine.begin() as connection:
        if connection.execute(select(Account.id)).first() is None:
            connection.execute(insert(Account).values(id=7, balance=100))
    engine.dispose()


prepare()
engine = create_async_engine(
    URL.set(drivername="sqlite+aiosqlite" if LITE else "postgresql+asyncpg")
)
Session = async_sessionmaker(engine, expire_on_commit=False)

app = duly.Duly(begin=Session)
app.source("shop", provider="standard-webhooks", secret=SECRET)
app.source("partners", provider="standard-webhooks", secret=SECRET)


# Four handlers with a mistake


@app.on("shop", "invoice.paid")
async def book_invoice(event: duly.Event) -> None:
    """Blind insert, in a session of its own."""
    async with Session.begin() as session:
        session.add(Booking(invoice=event.json["data"]["invoice"]))


@app.on("shop", "points.earned")
async def add_points(event: duly.Event) -> None:
    """Delta update outside the transaction: what was read is written back with something added."""
    async with Session.begin() as session:
        account = await session.get_one(Account, event.json["data"]["account"])
        account.balance += event.json["data"]["points"]


@app.on("shop", "order.confirmed")
async def charge(event: duly.Event, tx: duly.aio.Tx) -> None:
    """Call without idempotency key: the transaction is rolled back, and the charge is not."""
    async with httpx.AsyncClient() as client:
        await client.post("https://bank.example/charges", json=event.json["data"])
    tx.session.add(Booking(invoice=event.json["data"]["order"]))


api = FastAPI()
receive = fastapi.endpoint(app, "partners")


@api.post("/partners")
async def partners(request: Request) -> Any:
    """Side effect before the claim: each copy of a delivery counts a visit."""
    async with Session.begin() as session:
        session.add(Visit(partner=(await request.json())["data"]["partner"]))
    return await receive(request)


@app.on("partners", "partner.order")
async def take_partner_order(event: duly.Event, tx: duly.aio.Tx) -> None:
    """Correct by itself; the mistake is in the route before it."""
    tx.session.add(Booking(invoice=event.json["data"]["order"]))


# Two correct handlers


@app.on("shop", "payment.received")
async def record_payment(event: duly.Event, tx: duly.aio.Tx) -> None:
    """Row, message and the end of the job are one COMMIT, in the session that duly opened."""
    tx.session.add(Booking(invoice=event.json["data"]["invoice"]))
    await tx.send("https://books.example/payments", json=event.json["data"])


@app.on("shop", "refund.asked")
async def refund(event: duly.Event, job: Any) -> None:
    """A key that stays the same, and a row that can be there only once."""
    data = event.json["data"]
    await job.http.post("https://bank.example/refunds", key="refund", json=data)
    adding = sqlite_insert(Refund) if LITE else postgres_insert(Refund)
    async with Session.begin() as session:
        await session.execute(
            adding.values(event=event.id, amount=data["amount"]).on_conflict_do_nothing()
        )
