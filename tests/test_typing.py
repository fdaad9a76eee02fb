"""Types as a promise: mypy reads this module in `make check` and must agree with every line."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, assert_type

import duly
from duly import aio, verbs
from duly._kernel.results import Json
from duly._ledger.turns import Turn

if TYPE_CHECKING:
    import sqlite3

LEASE = timedelta(minutes=1)
Answer = duly.First | duly.Duplicate


def blocking(store: duly.Store, connection: sqlite3.Connection) -> None:
    """The types of the blocking verbs, for the type checker only."""
    assert_type(duly.dedup(store, "a", "b"), Answer)
    assert_type(duly.dedup_many(connection, "a", ["b", b"c"]), list[Answer])
    with duly.once(connection, "a", "b") as turn:
        assert_type(turn, Turn)
        assert_type(turn.first, bool)
    with duly.once(store, "a", "b", lease=LEASE) as leased:
        assert_type(leased, verbs.LeasedTurn)
        assert_type(leased.epoch, int)
    assert_type(duly.fence(store, "a", "b", lambda: [1]), Json)
    assert_type(duly.newer(connection, "a", 1, "skip"), bool)


async def awaited(store: duly.Store) -> None:
    """The types of the awaited verbs, for the type checker only."""
    assert_type(await aio.dedup(store, "a", "b"), Answer)
    async with aio.once(store, "a", "b", lease=LEASE) as leased:
        assert_type(leased, aio.LeasedTurn)
        await leased.mark("done")


def test_an_answer_is_narrowed_by_matching() -> None:
    def story(answer: Answer) -> str:
        match answer:
            case duly.First():
                return f"first, epoch {answer.epoch}"
            case duly.Duplicate(result=result):
                return f"duplicate, {result}"

    with duly.store("memory:") as store:
        assert story(duly.dedup(store, "a", "b")) == "first, epoch 1"
        assert story(duly.dedup(store, "a", "b")) == "duplicate, None"
