"""The shop's tables, and the sessions of site and handlers.

    python -m teashop.database

makes the tables. A shop that lives longer has migrations, of Alembic for example.
"""

import asyncio
import os

from sqlalchemy import BigInteger
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

# One address for `duly migrate` and for this: SQLAlchemy wants the driver named in it.
URL = os.environ["DATABASE_URL"].replace("postgresql://", "postgresql+asyncpg://", 1)

engine = create_async_engine(URL, connect_args={"command_timeout": 10})
Session = async_sessionmaker(engine, expire_on_commit=False)


class Base(DeclarativeBase):
    """The tables of the shop. duly's are beside them, in the same database."""


class Order(Base):
    """What a customer ordered."""

    __tablename__ = "orders"
    id: Mapped[str] = mapped_column(primary_key=True)
    item: Mapped[str]
    email: Mapped[str]


class Payment(Base):
    """A payment from Stripe. No constraint prevents a second row for an event."""

    __tablename__ = "payments"
    id: Mapped[int] = mapped_column(primary_key=True)
    event: Mapped[str]
    payment: Mapped[str]
    cents: Mapped[int] = mapped_column(BigInteger)


class Stock(Base):
    """How much is left of an item, as the warehouse counted it."""

    __tablename__ = "stock"
    item: Mapped[str] = mapped_column(primary_key=True)
    left: Mapped[int]


class Mail(Base):
    """Replaces the mail service: it accepts a mail once for each idempotency key."""

    __tablename__ = "mails"
    key: Mapped[str] = mapped_column(primary_key=True)
    to: Mapped[str]
    about: Mapped[str]


async def create_tables() -> None:
    """Make the tables that are missing."""
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    await engine.dispose()


if __name__ == "__main__":
    asyncio.run(create_tables())
