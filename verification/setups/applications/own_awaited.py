"""A shop on connections of duly's own, with handlers that are awaited."""

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
async def record_payment(event, tx):
    await tx.execute(INSERT, event=event.id, kind="payments")
    await tx.send(f"partner:{event.id}", json={"event": event.id})


# endregion
# region jobs
app.source("orders", provider="standard-webhooks", secret=SECRET)


@app.on("orders")
async def record_order(event, tx):
    await tx.execute(INSERT, event=event.id, kind="orders")
    await tx.send(f"partner:{event.id}", json={"event": event.id})


@app.job
async def ship(job, tx):
    await tx.execute(INSERT, event=job.payload["order"], kind="shipped")


# endregion
