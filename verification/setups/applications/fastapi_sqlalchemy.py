"""A FastAPI site around the shop, with sessions of its own."""

from contextlib import asynccontextmanager

from fastapi import FastAPI
from shop import Entry, app, engine, ship
from sqlalchemy.ext.asyncio import async_sessionmaker

sessions = async_sessionmaker(engine)


@asynccontextmanager
async def lifespan(api):
    yield
    await app.aclose()
    await engine.dispose()


api = FastAPI(lifespan=lifespan)
api.mount("/hooks", app)


@api.post("/checkout")
async def checkout(document: dict[str, str]):
    order = document["order"]
    async with sessions() as session:
        session.add(Entry(event=order, kind="ordered"))
        await app.aio.enqueue(ship, {"order": order}, tx=session)
        await session.commit()
    return {"status": "accepted", "event": order}
