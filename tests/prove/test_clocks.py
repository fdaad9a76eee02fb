"""Applications that go by a clock of their own, as tests make them: a proof's time goes on."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import sessionmaker

import duly
from duly.prove.asks import EventAsk
from duly.prove.assertion import assert_effectively_once
from duly.prove.case_runner import ProofRequest
from duly.prove.clocks import ProofTime, time_for
from duly.prove.loader import Subject
from duly.prove.prover import ProofOptions, prove_handler
from duly.prove.timestamp_masking import Span, is_moment
from duly.testing import HandClock, isolated, test_database
from tests.prove.test_assert import EVENT, SECRET, failure, right, shop

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow

RECORDED = datetime(2024, 5, 1, tzinfo=UTC)


def by_hand(path: Path, clock: HandClock, handler: Callable[..., object] = right) -> duly.Duly:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE orders (id TEXT, note TEXT)")
    app = duly.Duly(f"sqlite:///{path}", clock=clock)
    app.source("shop", provider="standard-webhooks", secret=SECRET)
    app.on("shop", "order.*", name="handler")(handler)
    return app


@pytest.mark.parametrize("case", ["kill:4", "pause:0"])
def test_a_handler_that_is_right_passes_by_a_clock_that_stands_still(
    case: str, tmp_path: Path
) -> None:
    clock = HandClock(RECORDED)
    app = by_hand(tmp_path / "shop.db", clock)
    assert_effectively_once(app, EVENT, only=case)
    app.close()
    assert clock.now < RECORDED + timedelta(seconds=1)


def test_a_handler_that_is_right_passes_on_the_database_of_a_test(tmp_path: Path) -> None:
    with isolated(shop(tmp_path / "shop.db", right)) as trial:
        with trial.app.transaction() as tx:
            tx.execute("CREATE TABLE orders (id TEXT, note TEXT)")
        assert_effectively_once(trial.app, EVENT, only="kill:4")


def test_a_mistake_is_found_by_a_clock_that_stands_still(tmp_path: Path) -> None:
    def handler() -> None:
        with closing(sqlite3.connect(tmp_path / "shop.db", timeout=10)) as own, own:
            own.execute("INSERT INTO orders (id) VALUES ('o-1')")

    app = by_hand(tmp_path / "shop.db", HandClock(RECORDED), handler)
    assert "blind insert" in failure(app, EVENT, only="kill:4")
    app.close()


def test_a_handler_that_is_right_passes_by_such_a_clock_on_postgresql(
    own_postgres_url: str,
) -> None:
    with psycopg.connect(own_postgres_url) as connection:
        connection.execute("CREATE TABLE orders (id text, note text)")
    app = duly.Duly(own_postgres_url, clock=HandClock(RECORDED))
    app.source("shop", provider="standard-webhooks", secret=SECRET)
    app.on("shop", "order.*", name="handler")(right)
    assert_effectively_once(app, EVENT, only="kill:4", disposable=True)
    app.close()


def test_the_sessions_of_a_test_stay_those_of_the_test(tmp_path: Path) -> None:
    def handler(tx: duly.Tx) -> None:
        tx.session.execute(text("INSERT INTO orders (id) VALUES ('o-1')"))

    own, other = (create_engine(f"sqlite:///{tmp_path / name}") for name in ("real.db", "test.db"))
    app = duly.Duly(begin=sessionmaker(own))
    app.source("shop", provider="standard-webhooks", secret=SECRET)
    app.on("shop", "order.*", name="handler")(handler)
    url = test_database(f"sqlite:///{tmp_path / 'test.db'}")
    with isolated(app, url=url, begin=sessionmaker(other)) as trial:
        with other.begin() as connection:
            connection.execute(text("CREATE TABLE orders (id TEXT)"))
        other.dispose()
        assert_effectively_once(trial.app, EVENT, only="kill:4")
    own.dispose()
    other.dispose()
    assert not (tmp_path / "real.db").exists()


def test_the_time_that_the_application_tells_is_of_the_moment() -> None:
    ahead = RECORDED.timestamp() - 2_000_000_000.0
    span = Span(2_000_000_000.0, 2_000_000_002.0, ahead)
    assert is_moment(RECORDED.timestamp() + 1, span)
    assert is_moment(2_000_000_001, span)
    assert not is_moment(RECORDED.timestamp() + 1, Span(span.begin, span.end))


def with_stripe(path: Path) -> duly.Duly:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE orders (id TEXT, note TEXT)")
    app = duly.Duly(f"sqlite:///{path}")
    app.source("stripe", secret=SECRET)
    app.on("stripe", name="handler")(right)
    return app


def paid(created: int) -> EventAsk:
    body = {"id": f"evt_{created}", "type": "paid", "created": created, "data": {"object": {}}}
    return EventAsk("", json.dumps(body).encode())


def test_an_event_that_was_recorded_long_ago_is_proved_at_its_own_time(tmp_path: Path) -> None:
    app = with_stripe(tmp_path / "shop.db")
    wishes = ProofRequest((paid(1000),), only="kill:4")

    verdict = prove_handler(lambda: Subject(app, None), wishes, ProofOptions(), lambda _: None)

    app.close()
    assert verdict.finding is None
    assert "the event is of 1970-01-01, before what its source remembers (window=)" in " ".join(
        verdict.notes
    )


def test_events_that_are_too_far_apart_are_refused_with_the_limit(tmp_path: Path) -> None:
    app = with_stripe(tmp_path / "shop.db")
    wishes = ProofRequest((paid(1000), paid(1_000_000_000)), only="reordered")

    with pytest.raises(duly.errors.UsageError, match="choose events that are closer together"):
        prove_handler(lambda: Subject(app, None), wishes, ProofOptions(), lambda _: None)

    app.close()


def test_an_event_of_today_is_proved_at_the_time_of_the_machine(tmp_path: Path) -> None:
    app = with_stripe(tmp_path / "shop.db")
    today = replace(paid(int(time.time())), source="stripe")
    assert time_for(app, [today]) == ProofTime(None)
    app.close()
