"""A stale event takes no effect, which is what ``order=`` was declared for; and no more than it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.prove import assert_effectively_once
from tests.prove.test_assert import SECRET, failure

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow

BOOKS = "https://books.example/orders"
UPSERT = """INSERT INTO orders (id, note) VALUES (:id, :note)
    ON CONFLICT (id) DO UPDATE SET note = excluded.note"""
BY_VERSION = ("order", "version")


def version(number: int) -> dict[str, Any]:
    return {"type": "order.changed", "order": "o-1", "version": number}


def shop(path: Path, handler: Callable[..., Any], **options: Any) -> duly.Duly:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE orders (id TEXT PRIMARY KEY, note TEXT)")
    app = duly.Duly(f"sqlite:///{path}")
    app.source("shop", provider="standard-webhooks", secret=SECRET)
    app.on("shop", "*", name="handler", **options)(handler)
    return app


def write(event: duly.Event, tx: duly.Tx) -> None:
    tx.execute(UPSERT, id=event.json["order"], note=str(event.json["version"]))


def write_and_tell(event: duly.Event, tx: duly.Tx) -> None:
    write(event, tx)
    tx.send(BOOKS, json={"version": event.json["version"]})


def ask_and_tell(event: duly.Event, tx: duly.Tx) -> None:
    if tx.newer(event.json["order"], event.json["version"]):
        write_and_tell(event, tx)


@pytest.mark.parametrize(
    ("handler", "options"),
    [(write_and_tell, {"order": BY_VERSION}), (ask_and_tell, {})],
    ids=["order=", "tx.newer"],
)
@pytest.mark.parametrize("versions", [(1, 2), (1, 2, 3)], ids=str)
def test_a_stale_event_need_not_send_its_message(
    handler: Callable[..., Any], options: dict[str, Any], versions: tuple[int, ...], tmp_path: Path
) -> None:
    app = shop(tmp_path / "shop.db", handler, **options)

    events = [version(number) for number in versions]
    assert_effectively_once(app, events, source="shop", only="reordered")


def test_the_whole_proof_of_such_a_handler_succeeds(tmp_path: Path) -> None:
    app = shop(tmp_path / "shop.db", write_and_tell, order=BY_VERSION)

    assert_effectively_once(app, [version(1), version(2)], source="shop")


def test_without_an_order_the_same_handler_is_told(tmp_path: Path) -> None:
    app = shop(tmp_path / "shop.db", write_and_tell)

    told = failure(app, [version(1), version(2)], source="shop", only="reordered")

    assert "orders.note of id='o-1' is '1' instead of '2'" in told


def test_the_message_of_the_newest_event_must_be_sent(tmp_path: Path) -> None:
    def handler(event: duly.Event, tx: duly.Tx) -> None:
        known = tx.execute("SELECT id FROM orders")
        write(event, tx)
        if known or event.json["version"] == 1:  # the second tells only of what the first wrote
            tx.send(BOOKS, json={"version": event.json["version"]})

    app = shop(tmp_path / "shop.db", handler, order=BY_VERSION)
    told = failure(app, [version(1), version(2)], source="shop", only="reordered")

    assert f"the message to {BOOKS} was" in told


def test_what_the_newest_event_sends_may_not_be_doubled(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"

    def refetch(event: duly.Event) -> None:
        """Runs before the guard, and outside of the transaction."""
        with closing(sqlite3.connect(path, timeout=10)) as own:
            if event.json["version"] == 1 and own.execute("SELECT id FROM orders").fetchall():
                import httpx

                httpx.post(BOOKS, json={"version": 2})

    app = shop(path, write_and_tell, order=BY_VERSION, refetch=refetch)
    told = failure(app, [version(1), version(2)], source="shop", only="reordered")

    assert BOOKS in told


def test_a_handler_that_rests_on_the_stale_event_is_told(tmp_path: Path) -> None:
    def handler(event: duly.Event, tx: duly.Tx) -> None:
        if event.json["version"] == 1:
            write(event, tx)
        else:
            tx.execute("UPDATE orders SET note = '2' WHERE id = 'o-1'")
        tx.send(BOOKS, json={"version": event.json["version"]})

    app = shop(tmp_path / "shop.db", handler, order=BY_VERSION)
    told = failure(app, [version(1), version(2)], source="shop", only="reordered")

    assert "what the later one does rests on it" in told
