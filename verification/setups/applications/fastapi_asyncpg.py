"""A FastAPI site around the shop, with a pool of asyncpg's."""

import os
from contextlib import asynccontextmanager

import asyncpg
from fastapi import FastAPI
from shop import app, ship


@asynccontextmanager
async def lifespan(api):
    async with asyncpg.create_pool(os.environ["DATABASE_URL"]) as pool:
        api.state.pool = pool
        yield
    await app.aclose()


api = FastAPI(lifespan=lifespan)
api.mount("/hooks", app)


@api.post("/checkout")
async def checkout(document: dict[str, str]):
    order = document["order"]
    async with api.state.pool.acquire() as connection, connection.transaction():
        await connection.execute("INSERT INTO entries (event, kind) VALUES ($1, 'ordered')", order)
        await app.aio.enqueue(ship, {"order": order}, tx=connection)
    return {"status": "accepted", "event": order}
