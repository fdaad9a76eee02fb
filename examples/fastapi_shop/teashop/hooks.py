"""The shop's webhooks: its sources, its handlers, and the messages that it sends.

duly worker teashop.hooks:app
duly relay teashop.hooks:app
"""

import os
from typing import TypedDict

from sqlalchemy.dialects.postgresql import insert

import duly
from duly import aio
from teashop.database import Mail, Payment, Session, Stock

BOOKS_URL = os.environ.get("BOOKS_URL", "https://books.example/entries")

app = duly.Duly(
    begin=Session,  # handlers work in sessions of the shop's own
    # Messages go out by https, and not to this machine, unless it is named here.
    egress=duly.Egress(allow=os.environ.get("EGRESS_ALLOW", "").split()),
)

# POST /hooks/stripe: the event is committed, Stripe gets its 200, and a worker runs the handlers.
app.source("stripe", secret=os.environ["STRIPE_WEBHOOK_SECRET"])
# POST /hooks/warehouse: handled inline, before the reply, in the transaction that claims the event.
app.source(
    "warehouse",
    provider="standard-webhooks",
    secret=os.environ["WAREHOUSE_WEBHOOK_SECRET"],
    inline=True,
)
# Messages are signed, so that the accounting service can verify them.
app.signer("books", secret=os.environ["BOOKS_SIGNING_SECRET"])


class Receipt(TypedDict):
    """What the mail service answers."""

    mail: str


@app.on("stripe", "payment_intent.succeeded")
async def record_payment(event: duly.Event, tx: aio.Tx) -> None:
    """Record a payment: the row, the job, the message and the end of this job are one COMMIT."""
    payment = event.json["data"]["object"]
    tx.session.add(Payment(event=event.id, payment=payment["id"], cents=payment["amount"]))
    await tx.enqueue(send_receipt, {"payment": payment["id"]})
    await tx.send(
        BOOKS_URL,
        json={"type": "payment.recorded", "payment": payment["id"], "cents": payment["amount"]},
        sign="books",
    )


@app.on("warehouse", "stock.changed")
async def set_stock(event: duly.Event, tx: aio.Tx) -> None:
    """Set the stock of an item, unless a newer count was set before: deliveries overtake."""
    count = event.json["data"]
    if await tx.newer(f"stock/{count['item']}", count["version"]):
        await tx.session.merge(Stock(item=count["item"], left=count["left"]))


@app.job(attempts=5)
async def send_receipt(job: aio.Job) -> None:
    """Mail a receipt, without a transaction: what was mailed cannot be rolled back.

    The outcome of the step is remembered. If the process dies in the middle of it, the next attempt
    takes the step again with the same key, which the mail service knows.
    """
    payment: str = job.payload["payment"]

    async def mail(key: str) -> Receipt:
        return await send_mail(key, "ann@example.com", f"payment {payment}")

    receipt = await job.effect("mail", mail)
    print(f"mailed {receipt['mail'][:8]} about {payment}, attempt {job.attempt}", flush=True)


@app.job(attempts=5)
async def confirm_order(job: aio.Job) -> None:
    """Mail the confirmation of an order that was placed on the site."""
    to: str = job.payload["email"]
    about = f"order {job.payload['order']}"

    async def mail(key: str) -> Receipt:
        return await send_mail(key, to, about)

    await job.effect("mail", mail)


async def send_mail(key: str, to: str, about: str) -> Receipt:
    """Where the shop would call its mail service, with the key that the service knows."""
    async with Session.begin() as session:
        await session.execute(
            insert(Mail).values(key=key, to=to, about=about).on_conflict_do_nothing()
        )
    return {"mail": key}
