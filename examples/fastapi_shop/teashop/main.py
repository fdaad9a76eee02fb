"""The site: its own routes, and duly's below /hooks.

uvicorn teashop.main:api
"""

import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from teashop.database import Order, Session, Stock, engine
from teashop.hooks import app, confirm_order


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
    """Close at the end what was opened at the first request."""
    yield
    await app.aclose()
    await engine.dispose()


api = FastAPI(lifespan=lifespan)
# /hooks/stripe, /hooks/warehouse, and for the load balancer /hooks/healthz and /hooks/readyz.
api.mount("/hooks", app)


class NewOrder(BaseModel):
    """What a customer sends."""

    item: str
    email: str


@api.post("/orders", status_code=201)
async def place_order(new: NewOrder) -> dict[str, str]:
    """Place an order: it and the job that confirms it are one COMMIT."""
    order = Order(id=str(uuid.uuid4()), item=new.item, email=new.email)
    async with Session.begin() as session:
        session.add(order)
        payload = {"order": order.id, "email": order.email}
        await app.aio.enqueue(confirm_order, payload, key=order.id, tx=session)
    return {"order": order.id}


@api.get("/stock/{item}")
async def show_stock(item: str) -> dict[str, int]:
    """What is left of an item."""
    async with Session() as session:
        stock = await session.get(Stock, item)
    if stock is None:
        raise HTTPException(404, "the warehouse has not counted it yet")
    return {"left": stock.left}
