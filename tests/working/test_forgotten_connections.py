"""A connection that a failing handler left open keeps nobody else from SQLite's write lock."""

from __future__ import annotations

import gc
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import duly

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Nothing is collected by itself, as in a worker that waits for the lock."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_failing_handler_that_left_its_transaction_open_is_settled(
    tmp_path: Path, colour: str
) -> None:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE orders (number TEXT PRIMARY KEY)")
        connection.execute("INSERT INTO orders VALUES ('7')")

    def book() -> None:
        connection = sqlite3.connect(path)
        connection.execute("INSERT INTO orders VALUES ('7')")

    async def book_awaited() -> None:
        book()

    app = duly.Duly(f"sqlite:///{path}")
    with closing(app):
        app.job(name="book")(book if colour == "sync" else book_awaited)
        app.enqueue("book")
        assert app.work().dead == 1
