"""The shop's webhooks: its sources, its handlers, and the messages that it sends.

duly worker orders.hooks:app
duly relay orders.hooks:app
"""

from typing import TypedDict

from django.conf import settings
from django.core.mail import EmailMessage

import duly
from orders.models import Payment, Stock

app = duly.Duly(
    begin=duly.django.database("default"),  # handlers with `tx` run inside transaction.atomic()
    egress=duly.Egress(allow=settings.EGRESS_ALLOW),
)

# POST /hooks/stripe: the event is committed, Stripe gets its 200, and a worker runs the handlers.
app.source("stripe", secret=settings.STRIPE_WEBHOOK_SECRET)
# POST /hooks/warehouse: handled inline, before the reply, in the transaction that claims the event.
app.source(
    "warehouse",
    provider="standard-webhooks",
    secret=settings.WAREHOUSE_WEBHOOK_SECRET,
    inline=True,
)
# Messages are signed, so that the accounting service can verify them.
app.signer("books", secret=settings.BOOKS_SIGNING_SECRET)


class Mailed(TypedDict):
    """What is remembered of a mail."""

    id: str


@app.on("stripe", "payment_intent.succeeded")
def record_payment(event: duly.Event, tx: duly.Tx) -> None:
    """Record a payment: the row, the job, the message and the end of this job are one COMMIT."""
    payment = event.json["data"]["object"]
    Payment.objects.create(event=event.id, payment=payment["id"], cents=payment["amount"])
    tx.enqueue(send_receipt, {"payment": payment["id"]})
    tx.send(
        settings.BOOKS_URL,
        json={"type": "payment.recorded", "payment": payment["id"], "cents": payment["amount"]},
        sign="books",
    )


@app.on("warehouse", "stock.changed")
def set_stock(event: duly.Event, tx: duly.Tx) -> None:
    """Set the stock of an item, unless a newer count was set before: deliveries overtake."""
    count = event.json["data"]
    if tx.newer(f"stock/{count['item']}", count["version"]):
        Stock.objects.update_or_create(item=count["item"], defaults={"left": count["left"]})


@app.job(attempts=5)
def send_receipt(job: duly.Job) -> None:
    """Mail a receipt, without a transaction: what was mailed cannot be rolled back.

    The outcome of the step is remembered. If the process dies in the middle of it, the next attempt
    takes the step again with the same key, which makes the same Message-ID.
    """
    about = f"payment {job.payload['payment']}"
    mailed = job.effect("mail", lambda key: send_mail(key, "ann@example.com", about))
    print(f"mailed {mailed['id']} about {about}, attempt {job.attempt}", flush=True)


@app.job(attempts=5)
def confirm_order(job: duly.Job) -> None:
    """Mail the confirmation of an order that was placed on the site."""
    to, about = job.payload["email"], f"order {job.payload['order']}"
    job.effect("mail", lambda key: send_mail(key, to, about))


@app.job(attempts=5)
def remind(job: duly.Job) -> None:
    """Remind a customer of an order that is not paid."""
    to, about = job.payload["email"], f"unpaid order {job.payload['order']}"
    job.effect("mail", lambda key: send_mail(key, to, about))


def send_mail(key: str, to: str, about: str) -> Mailed:
    """Send a mail. A repeat has the same Message-ID, so that the mailbox can hide it."""
    id = f"<{key}@example.com>"
    EmailMessage(f"Your {about}", "Thank you!", to=[to], headers={"Message-ID": id}).send()
    return {"id": id}
