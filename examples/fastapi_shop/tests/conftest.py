"""The shop on a database of its own for each test: `DULY_TEST_URL` names a server."""

import asyncio
import os
from collections.abc import Iterator

import pytest
from sqlalchemy import NullPool
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

# Before the shop is imported. No test writes there: see duly_begin.
os.environ["DATABASE_URL"] = "postgresql://nowhere.invalid/teashop"
os.environ["STRIPE_WEBHOOK_SECRET"] = "whsec_stripe_example"
os.environ["WAREHOUSE_WEBHOOK_SECRET"] = "whsec_d2FyZWhvdXNlLWV4YW1wbGUtc2VjcmV0"
os.environ["BOOKS_SIGNING_SECRET"] = "whsec_Ym9va3MtZXhhbXBsZS1zZWNyZXQtMTIz"

from teashop.database import Base, Session, engine


@pytest.fixture
def duly_begin(duly_url: str) -> Iterator[async_sessionmaker[AsyncSession]]:
    """The shop's own sessions, on the database of this test."""
    url = duly_url.replace("postgresql://", "postgresql+asyncpg://", 1)
    # A connection belongs to an event loop, and each test has one of its own: keep none.
    moved = create_async_engine(url, poolclass=NullPool)

    async def create_tables() -> None:
        async with moved.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)

    asyncio.run(create_tables())
    Session.configure(bind=moved)
    yield Session
    Session.configure(bind=engine)


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of tests that are awaited."""
    return "asyncio"
