"""What a proof compares: nothing of it is left out unsaid, and nothing that is right is blamed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.tools.proving.asserting import assert_effectively_once

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EVENT = {"type": "order.paid", "data": {"n": 1}}
LATER = {"type": "order.sent", "data": {"n": 2}}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


def run(path: Path, script: str) -> None:
    """Statements, each committed, on a connection of its own: as a handler should not write."""
    with closing(sqlite3.connect(path, timeout=10, isolation_level=None)) as own:
        for statement in filter(None, map(str.strip, script.split(";"))):
            own.execute(statement)


def shop(path: Path, tables: str, handler: Callable[..., Any]) -> duly.Duly:
    run(path, tables)
    app = duly.Duly(f"sqlite:///{path}")
    app.source("shop", provider="standard-webhooks", secret="whsec_" + "A" * 32)
    app.on("shop", "order.*", name="handler")(handler)
    return app


def failure(app: duly.Duly, *events: Any, **options: Any) -> str:
    """What a proof that must fail says, on one line."""
    with pytest.raises(AssertionError) as failed:
        assert_effectively_once(app, list(events), **options)
    return " ".join(str(failed.value).split())


def test_tables_of_the_same_name_in_two_files_are_both_compared(database: Path) -> None:
    other = database.with_name("other.db")
    run(other, "CREATE TABLE orders (id TEXT)")

    def handler() -> None:
        run(database, "INSERT INTO orders VALUES ('o-1')")
        run(other, "DELETE FROM orders; INSERT INTO orders VALUES ('o-1')")

    app = shop(database, "CREATE TABLE orders (id TEXT)", handler)
    told = failure(app, EVENT, only="kill:3")
    assert "orders has the row (id='o-1') 2 times instead of once" in told


def test_the_story_says_in_which_other_file_the_table_is(database: Path) -> None:
    other = database.with_name("other.db")
    run(other, "CREATE TABLE orders (id TEXT)")

    def handler() -> None:
        run(other, "INSERT INTO orders VALUES ('o-1')")

    app = shop(database, "CREATE TABLE orders (id TEXT)", handler)
    told = failure(app, EVENT, only="kill:3")
    assert "orders in other.db has the row (id='o-1') 2 times instead of once" in told
