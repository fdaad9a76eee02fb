"""``refetch=``: the source of truth is asked first, outside of the handler's transaction."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from tests.jobs.effects.sources import ORDER, Feed
from tests.jobs.effects.test_order import WOVEN, some, woven
from tests.support.inboxes import file_of, found
from tests.support.processes.leading import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.jobs.enqueue.desks import Case, Desk

AT_ONCE = duly.Backoff(first=timedelta(0))
OPEN = """SELECT 1 FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE '%in transaction%'"""


@pytest.fixture
def feed(case: Case, with_tx: bool, request: pytest.FixtureRequest) -> Iterator[Feed]:
    """A source whose handlers the test registers."""
    with case.open(request) as desk:
        yield Feed(desk, with_tx=with_tx)


def nothing_is_open(desk: Desk) -> bool:
    """Whether no transaction is open that stays so; the worker's own are over in a moment."""
    store = desk.app.store
    if store.url.startswith("postgresql:"):
        return until(lambda: None if found(store, OPEN) else True)
    with closing(sqlite3.connect(file_of(store), isolation_level=None, timeout=5)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
    return True


@woven
def test_the_handler_sees_what_the_source_of_truth_said_while_nothing_was_open(
    case: Case, with_tx: bool, feed: Feed
) -> None:
    asked: list[tuple[str, bool]] = []
    given: list[Any] = []

    def ask(event: duly.Event) -> Any:
        asked.append((event.id, nothing_is_open(feed.desk)))
        return {"status": "refunded"}

    async def ask_awaited(event: duly.Event) -> Any:
        return ask(event)

    refetch: Any = ask_awaited if case.colour == "async" else ask
    feed.on(body=lambda event: given.append((event.id, event.current)), refetch=refetch)
    worked = feed.tell("evt_1", version=1)

    assert worked.done == 1
    assert asked == [("evt_1", True)]
    assert given == [("evt_1", {"status": "refunded"})]


@woven
def test_a_refetch_that_fails_is_tried_again_with_its_handler(
    case: Case, with_tx: bool, feed: Feed
) -> None:
    asked: list[str] = []

    def ask(event: duly.Event) -> int:
        asked.append(event.id)
        if len(asked) == 1:
            raise ConnectionError("the provider is down")
        return len(asked)

    given: list[Any] = []
    feed.on(
        body=lambda event: given.append(event.current), refetch=ask, order=ORDER, backoff=AT_ONCE
    )
    worked = feed.tell("evt_1", version=1)

    assert (worked.retried, worked.done) == (1, 1)
    assert given == [2]


@some
def test_a_refetch_may_say_not_yet_or_dead(case: Case, with_tx: bool, feed: Feed) -> None:
    def ask(event: duly.Event) -> None:
        raise duly.Dead("the provider knows no such invoice")

    feed.on(refetch=ask)
    worked = feed.tell("evt_1", version=1)

    assert worked.dead == 1
    assert feed.seen == []
    assert "the provider knows no such invoice" in feed.dead()[0]


@pytest.mark.parametrize(("case", "with_tx"), WOVEN[:1], ids=str)
def test_a_refetch_that_must_be_awaited_is_refused_in_a_handler_that_blocks(
    case: Case, with_tx: bool, feed: Feed
) -> None:
    async def ask(event: duly.Event) -> None: ...

    with pytest.raises(duly.errors.UsageError, match="def"):  # there, or in the error of the job
        feed.on(refetch=ask, attempts=1)
        assert feed.tell("evt_1", version=1).dead == 1
        raise duly.errors.UsageError(feed.dead()[0])
