"""A small shop that is told of payments by Stripe and of its code by GitHub.

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

# Development only: these two are in the documentation, so anybody can sign with them. Set both
# variables to the secrets that Stripe and GitHub show you before others can reach the shop.
STRIPE_SECRET = os.environ.get("STRIPE_SECRET", "stripe-example-secret")
GITHUB_SECRET = os.environ.get("GITHUB_SECRET", "github-example-secret")

# The shop's tables and duly's are in one file, so that one transaction can hold both.
DATABASE = Path(os.environ.get("SHOP_DATABASE", Path(__file__).with_name("shop.db"))).resolve()

TABLES = """
CREATE TABLE IF NOT EXISTS orders (
    payment TEXT PRIMARY KEY,  -- Stripe's id of the payment that the customer was sent to
    amount  INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS payments (
    event   TEXT NOT NULL,  -- nothing here keeps an event from standing twice: duly does
    payment TEXT NOT NULL
);
INSERT INTO orders (payment, amount) VALUES ('pi_1', 2000) ON CONFLICT DO NOTHING;
"""
with closing(sqlite3.connect(DATABASE)) as connection:
    connection.executescript(TABLES)

app = duly.Duly(f"sqlite:///{DATABASE}")

# POST /stripe. Inline: its handlers run before the reply, in the transaction of the event.
app.source("stripe", secret=STRIPE_SECRET, inline=True)
# POST /github. The reply is sent as soon as the event and its jobs are kept. This version of duly
# has no worker yet: the jobs wait in the database.
app.source("github", secret=GITHUB_SECRET)


@app.on("stripe", "payment_intent.succeeded")
def record_payment(event: duly.Event, tx: duly.Tx) -> None:
    """Record the payment, in the transaction that remembers the event.

    Both are committed, and then Stripe gets its 200. If this raises, neither is kept, Stripe gets a
    500, and its next attempt starts afresh.
    """
    payment = event.json["data"]["object"]["id"]
    if not tx.execute("SELECT amount FROM orders WHERE payment = :payment", payment=payment):
        raise LookupError(f"no order has the payment {payment}")
    tx.execute(
        "INSERT INTO payments (event, payment) VALUES (:event, :payment)",
        event=event.id,
        payment=payment,
    )
    log.info("%s: recorded the payment of %s, once for this event", event.id, payment)


@app.on("github", "pull_request.*")
def announce(event: duly.Event) -> None:
    """Tell the team: a job, kept together with the event, for a worker to run after the reply.

    The worker comes with the next version; until then nothing runs this. It is the place for what
    takes its time or reaches outside. A job may run again after a crash, so it must be safe to
    repeat.
    """
    log.info("%s: pull request %s", event.type, event.json["number"])
