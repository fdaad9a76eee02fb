"""How a message may move, and that nothing else moves it: every statement, on every store."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import duly
from duly.core.ids import new_id
from duly.core.retry import RESCUE_BACKOFF
from duly.outbox.lease import DestinationDemand, MessageSettlement, rescue, settle, take
from duly.outbox.outcome import RELEASED, SENT
from tests.conftest import HandClock
from tests.outbox.moving import (
    AGAIN,
    ATTEMPTS,
    BURIED,
    HOUR,
    LEASE,
    SITUATIONS,
    THERE,
    Bench,
    Situation,
    insert,
    inserted,
    leased,
    rescued,
    returned,
    run_out,
)
from tests.worker.records import Records, settle_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.core.session import Session

ALLOWED = [
    pytest.param(situation, attempt, id=f"{situation.name}-{attempt}")
    for situation in SITUATIONS
    for attempt in situation.allowed
]
STATEMENTS = Path(duly.__file__).parent / "stores"
WRITES = re.compile(r"(?:INSERT INTO|UPDATE|DELETE FROM) \{outbox\}")
# The second half of an end where SQLite needs two statements; the first writes the history.
FORMS = {"outbox_remove": "outbox_sent"}
# Ids are never chosen again, so nobody stages one that was sent: there is nothing to refuse.
REPEATED = ("sent", "insert")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])  # memory: is SQLite's file
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[duly.types.Store, Records, HandClock]]:
    """A store and what is in it, open for all of these tests: each takes a few milliseconds."""
    if request.param == "postgres":
        url = request.getfixturevalue("working_postgres")
    else:
        url = f"sqlite:///{tmp_path_factory.mktemp('moves') / 'duly.db'}"
        settle_in(url)
    clock = HandClock()
    with duly.store(url, clock=clock) as store, Records(url).looking() as records:
        yield store, records, clock


@pytest.fixture
def bench(opened: tuple[duly.types.Store, Records, HandClock]) -> Bench:
    store, records, clock = opened
    records.clear()
    records.run("DELETE FROM duly_outbox")
    return Bench(store, records, clock)


def column(bench: Bench, name: str) -> object:
    """What the row of the message has there."""
    [(found,)] = bench.records.rows(f"SELECT {name} FROM duly_outbox")
    return found


@pytest.mark.promise("I7")
@pytest.mark.parametrize(("situation", "attempt"), ALLOWED)
def test_a_message_moves_as_the_table_says(
    bench: Bench, situation: Situation, attempt: str
) -> None:
    lease = situation.make(bench)
    assert bench.state() == situation.before
    assert bench.attempt(attempt, lease)
    assert bench.state() == situation.allowed[attempt]


@pytest.mark.promise("I7")
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_a_message_moves_in_no_other_way(bench: Bench, situation: Situation) -> None:
    lease = situation.make(bench)
    assert bench.state() == situation.before
    before = bench.everything()
    for attempt in ATTEMPTS:
        if attempt in situation.allowed or (situation.name, attempt) == REPEATED:
            continue
        assert not bench.attempt(attempt, lease), attempt
        assert bench.everything() == before, attempt


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_every_statement_that_changes_messages_is_tried_here(dialect: str) -> None:
    changing = {
        file.stem.removesuffix("_many")
        for file in (STATEMENTS / dialect / "statements").glob("*.sql")
        if WRITES.search(file.read_text(encoding="utf-8"))
    }
    tried = {attempt.statement for attempt in ATTEMPTS.values()}
    # On SQLite the end of a message is written by two statements, neither of which is both.
    assert {FORMS.get(name, name) for name in changing} <= tried
    assert tried - {"outbox_sent", "outbox_discard"} <= changing


@pytest.mark.promise("I10")
def test_a_lease_has_a_token_of_its_own_and_the_next_epoch(bench: Bench) -> None:
    first = leased(bench)
    bench.settle(first, RELEASED)
    second = bench.take()
    assert (first.lease.epoch, second.lease.epoch) == (1, 2)
    assert first.lease.token != second.lease.token
    assert second.run_at == first.run_at  # it keeps its place before those that came later


def test_what_failed_is_counted_and_recorded_and_what_was_given_back_is_not(bench: Bench) -> None:
    returned(bench, AGAIN)
    assert (column(bench, "attempts"), column(bench, "rescues")) == (1, 0)
    bench.clock.advance(LEASE)
    bench.stage()
    bench.settle(bench.take(), RELEASED)
    assert (column(bench, "attempts"), column(bench, "rescues")) == (1, 0)
    assert bytes(column(bench, "last_error")) == AGAIN.error  # type: ignore[call-overload]


def test_a_replay_begins_anew_with_the_same_id_and_key(bench: Bench) -> None:
    old = returned(bench, BURIED)
    assert bench.attempt("replay", old)
    new = bench.take()
    assert (new.id, new.request, new.body) == (old.id, old.request, old.body)
    assert (new.attempts, new.rescues) == (0, 0)
    assert new.lease.epoch > old.lease.epoch


def test_a_batch_settles_what_is_held_and_names_what_is_lost(bench: Bench) -> None:
    messages = [bench.message, *(new_id() for _ in range(5))]
    bench.run(lambda session: insert_all(session, messages))
    leases = bench.run(lambda session: take(session, [DestinationDemand(THERE, 10)], HOUR))
    ends = [SENT, AGAIN, BURIED, SENT, AGAIN, BURIED]
    stale = {one.id for one in leases[3:]}
    each = [
        MessageSettlement(one.lease._replace(epoch=9) if one.id in stale else one.lease, end)
        for one, end in zip(leases, ends, strict=True)
    ]
    held = bench.run(lambda session: settle(session, each))
    assert held == {one.id for one in leases[:3]}
    left = dict(bench.records.rows("SELECT id, state FROM duly_outbox"))
    assert {str(id): state for id, state in left.items()} == {
        leases[1].id: "ready", leases[2].id: "dead", **dict.fromkeys(stale, "leased"),
    }  # fmt: skip


def test_rescued_messages_come_back_each_at_a_moment_of_its_own(bench: Bench) -> None:
    messages = [bench.message, *(new_id() for _ in range(19))]
    bench.run(lambda session: insert_all(session, messages))
    bench.run(lambda session: take(session, [DestinationDemand(THERE, 20)], HOUR))
    bench.clock.advance(LEASE)
    rows = bench.run(rescue)
    assert {row["id"] for row in rows} == set(messages)
    assert {(row["destination"], row["state"], row["rescues"]) for row in rows} == {
        (THERE, "ready", 1)
    }
    moments = {moment for (moment,) in bench.records.rows("SELECT run_at FROM duly_outbox")}
    assert len(moments) == len(messages)
    bench.clock.advance(timedelta(microseconds=RESCUE_BACKOFF.delay(1, 1.0)))
    assert bench.run(lambda session: session.rows("outbox_stage", limit=100))


def test_a_rescue_costs_no_attempt_and_says_that_the_message_may_have_been_sent(
    bench: Bench,
) -> None:
    rescued(bench, 2)
    assert (column(bench, "attempts"), column(bench, "rescues")) == (0, 2)
    told = bytes(column(bench, "last_error")).decode()  # type: ignore[call-overload]
    assert "It may have been sent" in told


def test_no_lease_is_rescued_before_its_end(bench: Bench) -> None:
    leased(bench)
    bench.clock.advance(LEASE - timedelta(microseconds=1))
    assert not bench.run(rescue)
    bench.clock.advance(timedelta(microseconds=1))
    assert bench.run(rescue)


@pytest.mark.promise("I8")
def test_a_relay_that_was_paused_past_its_lease_changes_nothing(bench: Bench) -> None:
    old = run_out(bench)
    assert bench.run(rescue)
    bench.clock.advance(timedelta(minutes=5))
    bench.stage()
    new = bench.take()
    before = bench.everything()
    for name in ("sent", "again", "release", "bury"):
        assert not bench.attempt(name, old)
        assert bench.everything() == before
    assert new.rescues == 1
    bench.settle(new, SENT)
    assert bench.records.history(bench.message) == [(THERE, "sent", 2)]


def test_each_destination_is_taken_for_itself_and_the_oldest_first(bench: Bench) -> None:
    messages = [new_id() for _ in range(3)]
    for message in messages:
        bench.run(lambda session, one=message: insert(session, one))  # type: ignore[misc]
        bench.clock.advance(timedelta(seconds=1))
    assert bench.run(lambda s: take(s, [DestinationDemand("https://example.org", 10)], HOUR)) == []
    wanted = [DestinationDemand("https://example.org", 10), DestinationDemand(THERE, 2)]
    found = bench.run(lambda session: take(session, wanted, HOUR))
    assert [one.id for one in found] == messages[:2]
    inserted(bench)
    beyond = DestinationDemand(THERE, 10, found[-1].run_at, found[-1].id)
    rest = bench.run(lambda session: take(session, [beyond], HOUR))
    assert [one.id for one in rest] == [messages[2], bench.message]


async def insert_all(session: Session, messages: list[str]) -> None:
    for message in messages:
        await insert(session, message)
