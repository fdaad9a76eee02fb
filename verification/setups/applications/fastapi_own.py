"""A FastAPI site around the shop."""

from contextlib import asynccontextmanager

from fastapi import FastAPI
from shop import INSERT, app, ship


@asynccontextmanager
async def lifespan(api):
    yield
    await app.aclose()


api = FastAPI(lifespan=lifespan)
api.mount("/hooks", app)


@api.post("/checkout")
async def checkout(document: dict[str, str]):
    order = document["order"]
    async with app.aio.transaction() as tx:
        await tx.execute(INSERT, event=order, kind="ordered")
        await tx.enqueue(ship, {"order": order})
    return {"status": "accepted", "event": order}
