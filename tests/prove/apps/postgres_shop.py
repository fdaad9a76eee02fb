"""The sample shop on PostgreSQL: the same seven mistakes, and three handlers that are right."""

import os

import httpx
import psycopg
import requests

import duly

URL = os.environ["SHOP_DATABASE"]
SECRET = "whsec_" + "c2hvcC1leGFtcGxlLXNlY3JldA=="
TABLES = """
CREATE TABLE IF NOT EXISTS accounts (id integer PRIMARY KEY, balance integer NOT NULL);
CREATE TABLE IF NOT EXISTS bookings (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, invoice text NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS orders (
    id text PRIMARY KEY, state text NOT NULL, mailed boolean NOT NULL DEFAULT false
);
CREATE TABLE IF NOT EXISTS seen (event text PRIMARY KEY);
CREATE TABLE IF NOT EXISTS visits (partner text NOT NULL);
CREATE TABLE IF NOT EXISTS payments (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), invoice text NOT NULL, at timestamptz NOT NULL
);
CREATE TABLE IF NOT EXISTS refunds (event text PRIMARY KEY, amount integer NOT NULL);
CREATE TABLE IF NOT EXISTS stock (item text PRIMARY KEY, n integer NOT NULL);
INSERT INTO accounts VALUES (7, 100) ON CONFLICT DO NOTHING;
INSERT INTO orders (id, state) VALUES ('o-1', 'new') ON CONFLICT DO NOTHING;
INSERT INTO stock VALUES ('cup', 10) ON CONFLICT DO NOTHING;
"""

with psycopg.connect(URL) as connection:
    connection.execute(TABLES.encode())

app = duly.Duly(URL)


def partner_of(verified: duly.types.VerifiedDelivery) -> str:
    partner = str(verified.json["data"]["partner"])
    with psycopg.connect(URL, autocommit=True) as own:
        own.execute("INSERT INTO visits (partner) VALUES (%s)", [partner])
    return partner


app.source("shop", provider="standard-webhooks", secret=SECRET)
app.source("till", provider="standard-webhooks", secret=SECRET, inline=True)
app.source("partners", provider="standard-webhooks", secret=SECRET, tenant=partner_of)


@app.on("shop", "invoice.paid")
def book_invoice(event: duly.Event) -> None:
    with psycopg.connect(URL) as own:
        own.execute("INSERT INTO bookings (invoice) VALUES (%s)", [event.json["data"]["invoice"]])


@app.on("shop", "points.earned")
async def add_points(event: duly.Event) -> None:
    async with await psycopg.AsyncConnection.connect(URL) as own:
        await own.execute(
            "UPDATE accounts SET balance = balance + %s WHERE id = %s",
            [event.json["data"]["points"], event.json["data"]["account"]],
        )


@app.on("shop", "order.paid")
def pay_order(event: duly.Event) -> None:
    with psycopg.connect(URL, autocommit=True) as own:
        if own.execute("SELECT 1 FROM seen WHERE event = %s", [event.id]).fetchone():
            return
        own.execute("INSERT INTO seen (event) VALUES (%s)", [event.id])
        own.execute("UPDATE orders SET state = 'paid' WHERE id = %s", [event.json["data"]["order"]])


@app.on("shop", "order.shipped")
def mail_tracking(event: duly.Event) -> None:
    order = event.json["data"]["order"]
    with psycopg.connect(URL) as own:
        found = own.execute("SELECT mailed FROM orders WHERE id = %s", [order]).fetchone()
        if found is not None and not found[0]:
            mail = {"to": event.json["data"]["customer"], "subject": "On its way"}
            requests.post("https://mail.example/messages", json=mail, timeout=5)
            own.execute("UPDATE orders SET mailed = true WHERE id = %s", [order])


@app.on("shop", "order.confirmed")
async def charge(event: duly.Event) -> None:
    async with httpx.AsyncClient() as client:
        answer = await client.post("https://bank.example/charges", json=event.json["data"])
        answer.raise_for_status()


@app.on("partners", "partner.order")
def take_partner_order(event: duly.Event, tx: duly.Tx) -> None:
    tx.execute(
        "INSERT INTO orders (id, state) VALUES (:order, 'new')", order=event.json["data"]["order"]
    )


@app.on("shop", "order.state")
def set_state(event: duly.Event, tx: duly.Tx) -> None:
    tx.execute(
        "UPDATE orders SET state = :state WHERE id = :order",
        state=event.json["data"]["state"],
        order=event.json["data"]["order"],
    )


@app.on("till", "payment.received")
def record_payment(event: duly.Event, tx: duly.Tx) -> None:
    tx.execute(
        "INSERT INTO payments (invoice, at) VALUES (:invoice, now())",
        invoice=event.json["data"]["invoice"],
    )
    tx.send("https://books.example/payments", json=event.json["data"])


@app.on("shop", "refund.asked")
def refund(event: duly.Event, job: duly.Job) -> None:
    job.http.post("https://bank.example/refunds", key="refund", json=event.json["data"])
    with psycopg.connect(URL) as own:
        own.execute(
            "INSERT INTO refunds (event, amount) VALUES (%s, %s) ON CONFLICT DO NOTHING",
            [event.id, event.json["data"]["amount"]],
        )


@app.on("shop", "stock.counted", order=("data.item", "data.version"))
def set_stock(event: duly.Event, tx: duly.Tx) -> None:
    tx.execute(
        "UPDATE stock SET n = :n WHERE item = :item",
        n=event.json["data"]["n"],
        item=event.json["data"]["item"],
    )
