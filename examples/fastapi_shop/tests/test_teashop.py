"""What the shop promises, each event sent as its provider would."""

from typing import Any

import httpx
import pytest
from sqlalchemy import select

import duly
from duly.testing import Deliver, RunJobs, RunRelay
from teashop.database import Mail, Payment, Session, Stock
from teashop.main import api

PAID = {
    "id": "evt_1",
    "type": "payment_intent.succeeded",
    "data": {"object": {"id": "pi_1", "amount": 1200}},
}
pytestmark = pytest.mark.anyio


async def rows(column: Any) -> list[Any]:
    async with Session() as session:
        return list((await session.scalars(select(column))).all())


async def test_a_payment_announced_twice_is_recorded_once(
    deliver: Deliver, run_jobs: RunJobs, run_relay: RunRelay
) -> None:
    answers = await deliver.aio("stripe", PAID, times=20, at_once=True)
    assert answers.counts == {"accepted": 1, "duplicate": 19}
    assert (await run_jobs.aio()).done == ["record_payment", "send_receipt"]
    [message] = await run_relay.aio()
    assert message.json == {"type": "payment.recorded", "payment": "pi_1", "cents": 1200}
    assert await rows(Payment.payment) == ["pi_1"]
    assert await rows(Mail.about) == ["payment pi_1"]


async def test_an_older_count_of_the_warehouse_changes_nothing(deliver: Deliver) -> None:
    for id, version, left in (("a", 2, 7), ("b", 1, 9), ("b", 1, 9)):
        count = {"item": "assam", "left": left, "version": version}
        await deliver.aio("warehouse", {"type": "stock.changed", "data": count}, id=id)
    assert await rows(Stock.left) == [7]


async def test_an_order_and_its_confirmation_go_together(
    duly_app: duly.Duly, run_jobs: RunJobs
) -> None:
    transport = httpx.ASGITransport(app=api)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop.test") as client:
        placed = await client.post("/orders", json={"item": "assam", "email": "ann@example.com"})
        refused = await client.post("/orders", json={"item": "assam"})
    assert (placed.status_code, refused.status_code) == (201, 422)
    assert (await run_jobs.aio()).done == ["confirm_order"]
    assert await rows(Mail.about) == [f"order {placed.json()['order']}"]


async def test_the_site_lets_deliveries_through(deliver: Deliver) -> None:
    answer = await deliver.aio("stripe", PAID, site=api, path="/hooks/stripe")
    assert answer.word == "accepted"
