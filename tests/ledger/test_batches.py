"""Promises of a batch that meets trouble: one order for every lock, and all or nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import duly
from duly.core.keys import key_of
from duly.core.onestep import finish
from duly.errors import InProgress
from duly.inbox.accept import accept, receive_many, unique_by_key
from duly.inbox.new_event import EventOutcome, Status, event_digest
from duly.ledger.claims import Terms, claim_many
from duly.ledger.statements import CLAIMS_READ, CLAIMS_RETAKE
from duly.stores.postgres import runners
from duly.stores.postgres.deadlines import DeadlineConnection
from tests.support.inboxes import arrival, found
from tests.support.processes.leading import PATIENCE, until
from tests.support.watching import waits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duly.core.session import Session
    from tests.conftest import HandClock

HOUR = timedelta(hours=1)
HOUR_LONG = 3_600_000_000
CLAIM = (
    "INSERT INTO duly_claims (scope, digest, key_text, first_seen, state, token, epoch)"
    " VALUES (%s, %s, 'claimed', now(), 'done', 'other', 1)"
)


class Reversed:
    """A session whose reads come back in the worst order, as a hash join may return them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.retaken: list[object] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def rows(self, statement: str, **values: Any) -> Sequence[Any]:
        if statement == CLAIMS_RETAKE:
            self.retaken.append(values["digest"])
        return await self._session.rows(statement, **values)

    async def rows_each(self, statement: str, each: Any, **shared: Any) -> Sequence[Any]:
        rows = await self._session.rows_each(statement, each, **shared)
        return rows[::-1] if statement == CLAIMS_READ else rows


def test_expired_claims_are_taken_over_in_one_order_whatever_the_order_they_are_read_in(
    postgres_url: str, scope: str, clock: HandClock
) -> None:
    keys = [key_of(scope, str(number)) for number in range(20)]
    seen: list[Reversed] = []

    async def watched(session: Session) -> None:
        seen.append(Reversed(session))
        await claim_many(seen[-1], keys, Terms(b"t" * 16, HOUR_LONG))

    with duly.store(postgres_url, clock=clock) as store:
        duly.dedup_many(store, scope, [str(number) for number in range(20)], HOUR)
        clock.advance(HOUR)
        finish(store.sync_runner.run(watched, wait=HOUR))

    assert seen[0].retaken == sorted(key.digest for key in keys)


def test_a_rerun_that_is_held_gives_back_what_its_first_run_committed(
    postgres_url: str, scope: str, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = DeadlineConnection.transaction
    losses = iter([True])

    @contextmanager
    def losing(connection: DeadlineConnection) -> Iterator[None]:
        """The first COMMIT goes through, its reply is lost, and meanwhile "old" is leased."""
        with plain(connection):
            yield
        if next(losses, False):
            clock.advance(HOUR)
            lease = duly.once(other, scope, "old", lease=HOUR)
            lease.__enter__()
            connection.close()
            raise psycopg.OperationalError("the reply was lost")

    with (
        duly.store(postgres_url, clock=clock) as store,
        duly.store(postgres_url, clock=clock) as other,
    ):
        duly.dedup(store, scope, "old", HOUR)
        monkeypatch.setattr(DeadlineConnection, "transaction", losing)
        with pytest.raises(InProgress):
            duly.dedup_many(store, scope, ["new", "old"])
        monkeypatch.undo()
        assert duly.dedup(store, scope, "new").first


def test_a_body_is_never_claimed_without_its_event(
    postgres_url: str, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "BATCH_WAIT", timedelta(seconds=PATIENCE))
    late = arrival(scope, "late", replay=event_digest(scope, "its body"), signed=False)
    batch = unique_by_key([late, arrival(scope, "neighbour")])
    claims = f"SELECT key_text FROM duly_claims WHERE scope = '{scope}' ORDER BY 1"

    def accepted() -> dict[bytes, EventOutcome]:
        return finish(store.sync_runner.run_batch(lambda session: accept(session, batch)))

    with (
        duly.store(postgres_url) as store,
        ThreadPoolExecutor(1) as threads,
        psycopg.connect(postgres_url) as other,
    ):
        other.execute(CLAIM, [scope, late.digest])  # not committed, so nobody sees it yet
        running = threads.submit(accepted)
        until(lambda: waits(postgres_url, "shared AS MATERIALIZED"))
        other.commit()
        with pytest.raises(InProgress, match="receive each event of the batch alone"):
            running.result(PATIENCE)
        assert found(store, claims) == [("claimed",)]
        # Whoever tries again sees the other's claim first, and does not touch the body.
        told = dict(zip(batch, finish(receive_many(store.sync_runner, batch)), strict=True))
        assert told[late] == EventOutcome(Status.DUPLICATE)
        assert set(told.values()) == {EventOutcome(Status.DUPLICATE), EventOutcome(Status.ACCEPTED)}
        assert found(store, claims) == [("claimed",), ("neighbour",)]
