"""A small shop: seven handlers with a mistake each, and three correct ones.

    duly prove examples/mistakes/shop.py:app --event examples/mistakes/events/points.json

Each handler says what is wrong with it. README.md tells what `duly prove` says about it.
"""

import os
import smtplib
import sqlite3
from contextlib import closing
from email.message import EmailMessage
from pathlib import Path
from urllib.request import Request, urlopen

import duly

DATABASE = Path(os.environ.get("SHOP_DATABASE", Path(__file__).with_name("shop.db"))).resolve()
SECRET = "whsec_" + "c2hvcC1leGFtcGxlLXNlY3JldA=="  # development only

TABLES = """
CREATE TABLE IF NOT EXISTS accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS bookings (invoice TEXT NOT NULL, amount INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS orders (
    id TEXT PRIMARY KEY, state TEXT NOT NULL, mailed INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS seen (event TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS visits (partner TEXT NOT NULL, at TEXT DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE IF NOT EXISTS payments (id INTEGER PRIMARY KEY, invoice TEXT NOT NULL, at TEXT);
CREATE TABLE IF NOT EXISTS refunds (event TEXT PRIMARY KEY, amount INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS stock (item TEXT PRIMARY KEY, n INTEGER NOT NULL);
INSERT INTO accounts VALUES (7, 100) ON CONFLICT DO NOTHING;
INSERT INTO orders (id, state) VALUES ('o-1', 'new') ON CONFLICT DO NOTHING;
INSERT INTO stock VALUES ('cup', 10) ON CONFLICT DO NOTHING;
"""


def connect() -> sqlite3.Connection:
    """A connection of the shop's own, outside of duly's transactions."""
    return sqlite3.connect(DATABASE, timeout=10)


with closing(connect()) as connection:
    connection.executescript(TABLES)

app = duly.Duly(f"sqlite:///{DATABASE}")
app.source("shop", provider="standard-webhooks", secret=SECRET)
app.source("till", provider="standard-webhooks", secret=SECRET, inline=True)


# Seven handlers with a mistake


@app.on("shop", "invoice.paid")
def book_invoice(event: duly.Event) -> None:
    """Blind insert: a worker that dies before its job is settled has booked the invoice already."""
    with closing(connect()) as own, own:
        own.execute(
            "INSERT INTO bookings (invoice, amount) VALUES (?, ?)",
            [event.json["data"]["invoice"], event.json["data"]["amount"]],
        )


@app.on("shop", "points.earned")
def add_points(event: duly.Event) -> None:
    """Delta update outside the transaction: a repeat adds the amount again."""
    with closing(connect()) as own, own:
        own.execute(
            "UPDATE accounts SET balance = balance + ? WHERE id = ?",
            [event.json["data"]["points"], event.json["data"]["account"]],
        )


@app.on("shop", "order.paid")
def pay_order(event: duly.Event) -> None:
    """Mark before work: a crash in between leaves a mark without the work."""
    with closing(connect()) as own:
        if own.execute("SELECT 1 FROM seen WHERE event = ?", [event.id]).fetchone():
            return
        own.execute("INSERT INTO seen (event) VALUES (?)", [event.id])
        own.commit()
        own.execute("UPDATE orders SET state = 'paid' WHERE id = ?", [event.json["data"]["order"]])
        own.commit()


@app.on("shop", "order.shipped")
def mail_tracking(event: duly.Event) -> None:
    """Check, then act: a crash after the mail loses the mark, and a repeat mails again."""
    order = event.json["data"]["order"]
    with closing(connect()) as own, own:
        [mailed] = own.execute("SELECT mailed FROM orders WHERE id = ?", [order]).fetchone()
        if mailed:
            return
        mail = EmailMessage()
        mail["From"], mail["To"] = "shop@shop.example", event.json["data"]["customer"]
        mail["Subject"] = f"Your order {order} is on its way"
        mail.set_content("Hooray!")
        with smtplib.SMTP("mail.shop.example") as server:
            server.send_message(mail)
        own.execute("UPDATE orders SET mailed = 1 WHERE id = ?", [order])


@app.on("shop", "order.confirmed")
def charge(event: duly.Event) -> None:
    """Call without idempotency key: the bank cannot tell the second charge from another one."""
    body = f'{{"amount": {event.json["data"]["amount"]}}}'.encode()
    with urlopen(Request("https://bank.example/charges", body, method="POST")) as answer:
        answer.read()


def partner_of(verified: duly.types.VerifiedDelivery) -> str:
    """Side effect before the claim: this runs for every copy of a delivery, not once."""
    partner = str(verified.json["data"]["partner"])
    with closing(connect()) as own, own:
        own.execute("INSERT INTO visits (partner) VALUES (?)", [partner])
    return partner


app.source("partners", provider="standard-webhooks", secret=SECRET, tenant=partner_of)


@app.on("partners", "partner.order")
def take_partner_order(event: duly.Event, tx: duly.Tx) -> None:
    """Correct by itself; the mistake is in `tenant=`, which runs before it."""
    tx.execute(
        "INSERT INTO orders (id, state) VALUES (:order, 'new')", order=event.json["data"]["order"]
    )


@app.on("shop", "order.state")
def set_state(event: duly.Event, tx: duly.Tx) -> None:
    """Order-dependent write: a late event overwrites the state of a newer one."""
    tx.execute(
        "UPDATE orders SET state = :state WHERE id = :order",
        state=event.json["data"]["state"],
        order=event.json["data"]["order"],
    )


# Three correct handlers


@app.transport("mail")
def mail_by_smtp(message: duly.types.Message) -> None:
    """Send a mail of the outbox."""
    mail = EmailMessage()
    mail["From"], mail["To"] = "shop@shop.example", message.to
    mail["Message-ID"] = f"<{message.id}@shop.example>"
    mail.set_content(message.text)
    with smtplib.SMTP("mail.shop.example") as server:
        server.send_message(mail)


@app.on("till", "payment.received")
def record_payment(event: duly.Event, tx: duly.Tx) -> None:
    """Row, mail and the claim of the event are one COMMIT."""
    tx.execute(
        "INSERT INTO payments (invoice, at) VALUES (:invoice, datetime('now'))",
        invoice=event.json["data"]["invoice"],
    )
    tx.send(f"mail:{event.json['data']['customer']}", data="Thank you!")


@app.on("shop", "refund.asked")
def refund(event: duly.Event, job: duly.Job) -> None:
    """No transaction, but a key that stays the same, and a row that can be there only once."""
    amount = event.json["data"]["amount"]
    asked = Request("https://bank.example/refunds", f'{{"amount": {amount}}}'.encode())
    asked.add_header("Idempotency-Key", job.key("refund"))
    with urlopen(asked) as answer:  # noqa: S310
        answer.read()
    with closing(connect()) as own, own:
        own.execute(
            "INSERT INTO refunds (event, amount) VALUES (?, ?) ON CONFLICT DO NOTHING",
            [event.id, amount],
        )


@app.on("shop", "stock.counted", order=("data.item", "data.version"))
def set_stock(event: duly.Event, tx: duly.Tx) -> None:
    """Its order is declared: late events are skipped."""
    tx.execute(
        "UPDATE stock SET n = :n WHERE item = :item",
        n=event.json["data"]["n"],
        item=event.json["data"]["item"],
    )
