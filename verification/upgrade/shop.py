"""The application that both releases serve; it notes which of them ran each handler."""

import os
from pathlib import Path

import duly

app = duly.Duly(os.environ["SHOP_URL"])
app.source("stripe", secret=os.environ["SHOP_SECRET"])
RELEASE = Path(duly.__file__).parents[1].name


@app.on("stripe", "paid")
def paid(event: duly.Event, tx: duly.Tx) -> None:
    """Write one effect; the table forbids no double."""
    tx.execute(
        "INSERT INTO effects (event, release) VALUES (:event, :release)",
        event=event.id,
        release=RELEASE,
    )
