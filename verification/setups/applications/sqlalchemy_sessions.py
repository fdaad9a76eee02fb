"""A shop whose handlers work in SQLAlchemy's sessions."""

import json
import os
from pathlib import Path

from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, sessionmaker

import duly

SECRET = os.environ["SHOP_SECRET"]


class Base(DeclarativeBase): ...


class Entry(Base):
    __tablename__ = "entries"
    number: Mapped[int] = mapped_column(primary_key=True)
    event: Mapped[str]
    kind: Mapped[str]


engine = create_engine(os.environ["DATABASE_URL"])
app = duly.Duly(begin=sessionmaker(engine))


@app.transport("partner")
def tell_partner(message, key):
    with Path(os.environ["PARTNER_LOG"]).open("a") as log:
        log.write(json.dumps({"id": key, "event": message.json["event"]}) + "\n")


# region inline
app.source("payments", provider="standard-webhooks", secret=SECRET, inline=True)


@app.on("payments")
def record_payment(event, tx):
    tx.session.add(Entry(event=event.id, kind="payments"))
    tx.send(f"partner:{event.id}", json={"event": event.id})


# endregion
# region jobs
app.source("orders", provider="standard-webhooks", secret=SECRET)


@app.on("orders")
def record_order(event, tx):
    tx.session.add(Entry(event=event.id, kind="orders"))
    tx.send(f"partner:{event.id}", json={"event": event.id})


@app.job
def ship(job, tx):
    tx.session.add(Entry(event=job.payload["order"], kind="shipped"))


# endregion
