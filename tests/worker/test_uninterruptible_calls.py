"""A call into SQLite that no interruption ends costs its own handler, and nobody after it."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly.stores.sqlite import user_transactions

NAP = 0.8


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_what_cannot_be_taken_away_in_time_does_not_spoil_the_connection(
    colour: str, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_transactions, "REVOKE_SECONDS", NAP / 8)
    app = duly.Duly(sqlite_url)
    with app.transaction() as tx:
        tx.execute("CREATE TABLE notes (note TEXT NOT NULL)")
        tx.connection.create_function("nap", 1, time.sleep)

    def stubborn(job: Any, tx: Any) -> None:
        tx.execute("INSERT INTO notes VALUES ('late')")
        tx.execute("SELECT nap(:seconds)", seconds=NAP)  # not even an interruption ends it

    async def awaited(job: Any, tx: Any) -> None:
        await tx.execute("INSERT INTO notes VALUES ('late')")
        await tx.execute("SELECT nap(:seconds)", seconds=NAP)

    def neighbour(job: Any, tx: Any) -> None:
        tx.execute("INSERT INTO notes VALUES ('next')")

    limit = timedelta(milliseconds=100)
    app.job(name="stubborn", timeout=limit)(stubborn if colour == "sync" else awaited)
    app.job(name="neighbour", attempts=5)(neighbour)
    app.enqueue("stubborn")
    app.enqueue("neighbour")
    worked = app.work()
    assert worked.done == 1
    with app.transaction() as tx:
        assert [row["note"] for row in tx.execute("SELECT note FROM notes")] == ["next"]
    assert app.jobs.dead(name="stubborn") or worked.lost == 1
    app.close()
