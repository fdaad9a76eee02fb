"""A FastAPI site around the shop, with a pool of psycopg's."""

import os
from contextlib import asynccontextmanager

from fastapi import FastAPI
from psycopg_pool import AsyncConnectionPool
from shop import app, ship


@asynccontextmanager
async def lifespan(api):
    async with AsyncConnectionPool(os.environ["DATABASE_URL"], open=False) as pool:
        api.state.pool = pool
        yield
    await app.aclose()


api = FastAPI(lifespan=lifespan)
api.mount("/hooks", app)


@api.post("/checkout")
async def checkout(document: dict[str, str]):
    order = document["order"]
    async with api.state.pool.connection() as connection:
        await connection.execute(
            "INSERT INTO entries (event, kind) VALUES (%s, 'ordered')", [order]
        )
        await app.aio.enqueue(ship, {"order": order}, tx=connection)
    return {"status": "accepted", "event": order}
