"""A shop whose handlers work in SQLAlchemy's sessions, awaited."""

import json
import os
from pathlib import Path

from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import duly

SECRET = os.environ["SHOP_SECRET"]


class Base(DeclarativeBase): ...


class Entry(Base):
    __tablename__ = "entries"
    number: Mapped[int] = mapped_column(primary_key=True)
    event: Mapped[str]
    kind: Mapped[str]


engine = create_async_engine(os.environ["DATABASE_URL"])
app = duly.Duly(begin=async_sessionmaker(engine))


@app.transport("partner")
def tell_partner(message, key):
    with Path(os.environ["PARTNER_LOG"]).open("a") as log:
        log.write(json.dumps({"id": key, "event": message.json["event"]}) + "\n")


# region inline
app.source("payments", provider="standard-webhooks", secret=SECRET, inline=True)


@app.on("payments")
async def record_payment(event, tx):
    tx.session.add(Entry(event=event.id, kind="payments"))
    await tx.send(f"partner:{event.id}", json={"event": event.id})


# endregion
# region jobs
app.source("orders", provider="standard-webhooks", secret=SECRET)


@app.on("orders")
async def record_order(event, tx):
    tx.session.add(Entry(event=event.id, kind="orders"))
    await tx.send(f"partner:{event.id}", json={"event": event.id})


@app.job
async def ship(job, tx):
    tx.session.add(Entry(event=job.payload["order"], kind="shipped"))


# endregion
