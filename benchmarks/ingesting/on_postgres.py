"""The peers on PostgreSQL: what people write, the same as one statement, and that tuned."""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import asyncpg
import standardwebhooks
from fastapi import FastAPI, HTTPException, Request
from psycopg_pool import AsyncConnectionPool

from benchmarks.ingesting.bare import CHOSEN, HANDLER, Bare, Keep, Values
from benchmarks.ingesting.deliveries import SECRET, SOURCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

EVENT = """
INSERT INTO events (source, event_id, type, headers, body, fingerprint)
VALUES (%s, %s, %s, %s, %s, %s)
    ON CONFLICT (source, event_id) DO NOTHING
RETURNING id
"""
JOB = "INSERT INTO jobs (event, handler) VALUES (%s, %s)"
BOTH = f"""
WITH event AS ({EVENT})
INSERT INTO jobs (event, handler) SELECT event.id, '{HANDLER}' FROM event
RETURNING event
"""
# What people give a pool, and as much as duly takes by default.
POOL = 10


def fastapi(url: str) -> FastAPI:
    """The handler people write today: a transaction with two statements."""
    webhook = standardwebhooks.Webhook(SECRET)
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(url, max_size=POOL, open=False)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with pool:
            await pool.wait()
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post(f"/{SOURCE}")
    async def receive(request: Request) -> dict[str, str]:
        body = await request.body()
        try:
            payload = webhook.verify(body, dict(request.headers))
        except standardwebhooks.WebhookVerificationError as error:
            raise HTTPException(403, "refused") from error
        values = values_of(request, payload, body)
        async with pool.connection() as connection:
            cursor = await connection.execute(EVENT, values)
            row = await cursor.fetchone()
            if row is None:
                return {"status": "duplicate", "event": values[1]}
            await connection.execute(JOB, (row[0], HANDLER))
        return {"status": "accepted", "event": values[1]}

    return app


def values_of(request: Request, payload: dict[str, Any], body: bytes) -> Values:
    """What is stored of a request."""
    names = [name.decode() for name in CHOSEN]
    headers = {name: request.headers[name] for name in names if name in request.headers}
    fingerprint = hashlib.sha256(body).digest()
    identifier, kind = request.headers["webhook-id"], payload["type"]
    return SOURCE, identifier, kind, json.dumps(headers), body, fingerprint


def cte(url: str) -> Bare:
    """One statement for both rows, in the transaction of a pool as it comes."""
    return Bare(partial(pooled, url))


def tuned(url: str, size: int) -> Bare:
    """The same statement on the fastest driver, committing itself: one round trip for each."""
    return Bare(partial(pooled_tightly, url, size))


@asynccontextmanager
async def pooled(url: str) -> AsyncIterator[Keep]:
    """Keeps an event and its job through a pool as it comes: BEGIN, the statement, COMMIT."""
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(url, open=False)
    async with pool:
        await pool.wait()

        async def keep(values: Values) -> bool:
            async with pool.connection() as connection:
                cursor = await connection.execute(BOTH, values)
                return await cursor.fetchone() is not None

        yield keep


@asynccontextmanager
async def pooled_tightly(url: str, size: int) -> AsyncIterator[Keep]:
    """Keeps an event and its job through a pool that is up from the start and resets nothing."""

    async def left_as_it_is(_: asyncpg.Connection) -> None:
        """Nothing was set, so there is nothing to reset."""

    numbers = iter(range(1, BOTH.count("%s") + 1))
    statement = re.sub("%s", lambda _: f"${next(numbers)}", BOTH)
    async with asyncpg.create_pool(url, min_size=size, max_size=size, reset=left_as_it_is) as pool:

        async def keep(values: Values) -> bool:
            async with pool.acquire() as connection:
                return await connection.fetchval(statement, *values) is not None

        yield keep
