"""A shop whose handlers work with Django's models."""

import json
import os
from pathlib import Path

import django

django.setup()

from models import Entry  # noqa: E402

import duly  # noqa: E402

SECRET = os.environ["SHOP_SECRET"]

app = duly.Duly(begin=duly.django.database("default"))


@app.transport("partner")
def tell_partner(message, key):
    with Path(os.environ["PARTNER_LOG"]).open("a") as log:
        log.write(json.dumps({"id": key, "event": message.json["event"]}) + "\n")


# region inline
app.source("payments", provider="standard-webhooks", secret=SECRET, inline=True)


@app.on("payments")
def record_payment(event, tx):
    Entry.objects.create(event=event.id, kind="payments")
    tx.send(f"partner:{event.id}", json={"event": event.id})


# endregion
# region jobs
app.source("orders", provider="standard-webhooks", secret=SECRET)


@app.on("orders")
def record_order(event, tx):
    Entry.objects.create(event=event.id, kind="orders")
    tx.send(f"partner:{event.id}", json={"event": event.id})


@app.job
def ship(job, tx):
    Entry.objects.create(event=job.payload["order"], kind="shipped")


# endregion
