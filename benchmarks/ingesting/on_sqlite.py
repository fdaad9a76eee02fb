"""The peers on SQLite: what people write, and what an expert makes of it."""

from __future__ import annotations

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import aiosqlite
import standardwebhooks
from fastapi import FastAPI, HTTPException, Request

from benchmarks.ingesting.bare import HANDLER, Bare, Keep, Values
from benchmarks.ingesting.deliveries import SECRET, SOURCE
from benchmarks.ingesting.on_postgres import values_of
from benchmarks.ingesting.tables import SETTINGS, file_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

EVENT = """
INSERT INTO events (source, event_id, type, headers, body, fingerprint)
VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (source, event_id) DO NOTHING
RETURNING id
"""
JOB = "INSERT INTO jobs (event, handler) VALUES (?, ?)"


def fastapi(url: str) -> FastAPI:
    """The handler people write today: aiosqlite, a lock, two statements in a transaction."""
    webhook = standardwebhooks.Webhook(SECRET)
    turn = asyncio.Lock()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with aiosqlite.connect(file_of(url)) as connection:
            for setting in SETTINGS:
                await connection.execute(setting)
            app.state.connection = connection
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
        async with turn:
            new = await keep(request.app.state.connection, values)
        return {"status": "accepted" if new else "duplicate", "event": values[1]}

    return app


async def keep(connection: aiosqlite.Connection, values: Values) -> bool:
    """The event and its job, and the commit."""
    async with connection.execute(EVENT, values) as cursor:
        row = await cursor.fetchone()
    if row is not None:
        await connection.execute(JOB, (row[0], HANDLER))
    await connection.commit()
    return row is not None


def tuned(url: str) -> Bare:
    """One writer on a thread of its own: one hop and one transaction for each delivery."""
    return Bare(partial(written, url))


@asynccontextmanager
async def written(url: str) -> AsyncIterator[Keep]:
    """Keeps an event and its job on the writer's thread."""
    connection = sqlite3.connect(file_of(url), isolation_level=None, check_same_thread=False)
    for setting in SETTINGS:
        connection.execute(setting)

    def write(values: Values) -> bool:
        execute = connection.execute
        execute("BEGIN IMMEDIATE")
        row = execute(EVENT, values).fetchone()
        if row is not None:
            execute(JOB, (row[0], HANDLER))
        execute("COMMIT")
        return row is not None

    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as writer:
        yield lambda values: loop.run_in_executor(writer, write, values)
    connection.close()
