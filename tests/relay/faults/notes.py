"""Application B, for `duly serve`: it notes every order that A tells it of.

Nothing in its table forbids to note one twice.
"""

from __future__ import annotations

import os
from datetime import timedelta

import duly
from tests.relay.faults.posts import SECRET

APP = "tests.relay.faults.notes:app"
URL = "NOTES_URL"
CREATE = "CREATE TABLE notes (number integer)"
INSERT = "INSERT INTO notes VALUES (:number)"
QUICK = duly.Backoff(first=timedelta(milliseconds=50))
# On SQLite nobody takes a dead worker's job before its handler would have had to end.
TIMEOUT = timedelta(seconds=2)


def noting(url: str) -> duly.Duly:
    """One source whose handler runs in the request, and one whose handler runs as a job."""
    app = duly.Duly(url)
    app.source("now", provider="standard-webhooks", secret=SECRET, inline=True)
    app.source("later", provider="standard-webhooks", secret=SECRET)

    @app.on("now", name="note")
    def note(event: duly.Event, tx: duly.Tx) -> None:
        tx.execute(INSERT, number=event.json["number"])

    @app.on("later", name="note_later", attempts=20, backoff=QUICK, timeout=TIMEOUT)
    def note_later(event: duly.Event, tx: duly.Tx) -> None:
        tx.execute(INSERT, number=event.json["number"])

    return app


if URL in os.environ:
    app = noting(os.environ[URL])
