"""A shop on connections of duly's own."""

import json
import os
from pathlib import Path

import duly

SECRET = os.environ["SHOP_SECRET"]
INSERT = "INSERT INTO entries (event, kind) VALUES (:event, :kind)"

app = duly.Duly(os.environ["DATABASE_URL"])


@app.transport("partner")
def tell_partner(message, key):
    with Path(os.environ["PARTNER_LOG"]).open("a") as log:
        log.write(json.dumps({"id": key, "event": message.json["event"]}) + "\n")


# region inline
app.source("payments", provider="standard-webhooks", secret=SECRET, inline=True)


@app.on("payments")
def record_payment(event, tx):
    tx.execute(INSERT, event=event.id, kind="payments")
    tx.send(f"partner:{event.id}", json={"event": event.id})


# endregion
# region jobs
app.source("orders", provider="standard-webhooks", secret=SECRET)


@app.on("orders")
def record_order(event, tx):
    tx.execute(INSERT, event=event.id, kind="orders")
    tx.send(f"partner:{event.id}", json={"event": event.id})


@app.job
def ship(job, tx):
    tx.execute(INSERT, event=job.payload["order"], kind="shipped")


# endregion
