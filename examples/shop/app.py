"""A small shop that receives payments from Stripe and pull requests from GitHub.

    duly serve examples/shop/app.py:app

Each event takes effect once, however often it is delivered, and from however many senders at once.
"""

import logging
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import duly

log = logging.getLogger("shop")

# Development only: these two are in the documentation, so any sender can sign with them. Set both
# variables to the secrets that Stripe and GitHub show you before others can reach the shop.
STRIPE_SECRET = os.environ.get("STRIPE_WEBHOOK_SECRET", "stripe-example-secret")
GITHUB_SECRET = os.environ.get("GITHUB_WEBHOOK_SECRET", "github-example-secret")

# The shop's tables and duly's are in one file, so that one transaction can hold both.
DATABASE = Path(os.environ.get("SHOP_DATABASE", Path(__file__).with_name("shop.db"))).resolve()

TABLES = """
CREATE TABLE IF NOT EXISTS purchases (
    id     TEXT PRIMARY KEY,  -- the order_id in the metadata that the shop gave to Stripe
    amount INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS payments (
    event   TEXT NOT NULL,  -- nothing here keeps an event from standing twice: duly does
    payment TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS changes (
    event        TEXT NOT NULL,
    pull_request INTEGER NOT NULL
);
INSERT INTO purchases (id, amount) VALUES ('order-1', 2000) ON CONFLICT DO NOTHING;
"""
with closing(sqlite3.connect(DATABASE)) as connection:
    connection.executescript(TABLES)

app = duly.Duly(f"sqlite:///{DATABASE}")

# POST /stripe. Inline: its handlers run before the reply, in the transaction of the event.
app.source("stripe", secret=STRIPE_SECRET, inline=True)
# POST /github. The reply is sent as soon as the event and its jobs are committed; the worker in
# `duly serve` runs them.
app.source("github", secret=GITHUB_SECRET)


@app.job(attempts=5)
def send_receipt(job: duly.Job) -> None:
    """Mail the receipt: a job, run by a worker, up to five times if it fails.

    It may run again after a crash. Once the mail is sent, a repeat does not send it; if nobody can
    tell, the mail service is asked again with the same key, and knows it.
    """
    payment = job.payload["payment"]
    job.effect("mail", lambda key: mail(payment, key))


def mail(payment: str, key: str) -> None:
    """Where the shop would call its mail service."""
    log.info("mailed the receipt of %s, with the idempotency key %s", payment, key[:8])


@app.on("stripe", "payment_intent.succeeded")
def record_payment(event: duly.Event, tx: duly.Tx) -> None:
    """Record the payment, in the transaction that claims the event.

    Both are committed together with the job for the receipt, and then Stripe gets its 200. If this
    raises, nothing is kept, Stripe gets a 500, and its next attempt starts afresh.
    """
    paid = event.json["data"]["object"]
    payment, order = paid["id"], paid["metadata"]["order_id"]
    if not tx.execute("SELECT amount FROM purchases WHERE id = :order", order=order):
        raise LookupError(f"there is no order {order}, for which {payment} pays")
    tx.execute(
        "INSERT INTO payments (event, payment) VALUES (:event, :payment)",
        event=event.id,
        payment=payment,
    )
    tx.enqueue(send_receipt, {"payment": payment})
    log.info("%s: recorded the payment of %s, once for this event", event.id, payment)


@app.on("github", "pull_request.*")
def note_change(event: duly.Event, tx: duly.Tx) -> None:
    """Note a change of the shop's code: a job, kept together with the event, run after the reply.

    What it writes and the end of the job are committed together. If it raises, neither is kept, and
    it runs again a little later, five times in all.
    """
    tx.execute(
        "INSERT INTO changes (event, pull_request) VALUES (:event, :number)",
        event=event.id,
        number=event.json["number"],
    )
    log.info("%s: pull request %s", event.type, event.json["number"])
