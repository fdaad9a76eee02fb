"""An application as a user would write it, on a database that no test may touch."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import duly
from duly.testing import Trial

SECRET = "whsec_c2hvcA=="
PAID = {"id": "evt_1", "type": "invoice.paid", "data": {"object": {"id": "in_1"}}}
BOOKS = "https://books.example/entries"


def record(event: duly.Event, tx: duly.Tx) -> None:
    tx.execute("INSERT INTO payments (id) VALUES (:id)", id=event.id)
    tx.send(BOOKS, json={"paid": event.id}, sign="ours")


def record_now(event: duly.Event, tx: duly.Tx) -> None:
    tx.execute("INSERT INTO payments (id) VALUES (:id)", id=event.id)


def flaky(job: duly.Job) -> None:
    """Fails as often as its payload says."""
    if job.attempt <= job.payload:
        raise ValueError(f"attempt {job.attempt} fails")


def a_shop(folder: Path, **options: Any) -> duly.Duly:
    """A shop whose own database is a file that is not there yet."""
    app = duly.Duly(f"sqlite:///{folder / 'real.db'}", **options)
    app.source("stripe", secret=SECRET)
    app.source("now", provider="stripe", secret=SECRET, inline=True)
    app.on("stripe", "invoice.paid")(record)
    app.on("now")(record_now)
    app.job(attempts=3, backoff=duly.Backoff(first=timedelta(minutes=1)))(flaky)
    app.signer("ours", secret=SECRET)
    return app


def tables(trial: Trial) -> None:
    """What the user has beside duly's tables."""
    with trial.app.transaction() as tx:
        tx.execute("CREATE TABLE payments (id text)")


def payments(trial: Trial) -> list[str]:
    """What the handlers wrote."""
    with trial.app.transaction() as tx:
        return [row["id"] for row in tx.execute("SELECT id FROM payments ORDER BY id")]
