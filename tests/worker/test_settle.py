"""Ends that are hard to write: refused by the database, or many at once."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duly.core.defaults import WAIT
from duly.core.onestep import finish
from duly.jobs.lease import JobSettlement, settle
from duly.jobs.outcome import JobOutcome
from tests.jobs.enqueue.desks import CASES
from tests.support.processes.leading import PATIENCE
from tests.worker.conftest import named
from tests.worker.subjects import cases, seen, working

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import HandClock
    from tests.jobs.enqueue.desks import Case as DeskCase
    from tests.jobs.enqueue.desks import Desk
    from tests.worker.records import Records
    from tests.worker.subjects import Case, DatabaseOf, Hand

REFUSING = {
    "sqlite": """
        CREATE TRIGGER refusing BEFORE INSERT ON duly_history
        BEGIN SELECT raise(ABORT, 'no such outcome here'); END
        """,
    "postgres": """
        CREATE FUNCTION refusing() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'no such outcome here' USING ERRCODE = '23514'; END $$;
        CREATE TRIGGER refusing BEFORE INSERT ON duly_history
        FOR EACH ROW EXECUTE FUNCTION refusing()
        """,
}
WITHOUT_DISK = REFUSING["postgres"].replace("23514", "53100")


@contextmanager
def in_the_way(records: Records, trigger: str) -> Iterator[None]:
    """The database does not take history meanwhile."""
    records.run(trigger)
    try:
        yield
    finally:
        take_away(records)


def take_away(records: Records) -> None:
    """It takes it again."""
    if records.place.is_sqlite:
        records.run("DROP TRIGGER IF EXISTS refusing")
    else:
        records.run("DROP FUNCTION IF EXISTS refusing CASCADE")


class Counting:
    """A handler that does nothing, and knows how often."""

    def __init__(self) -> None:
        self.runs = 0

    async def __call__(self, hand: Hand) -> None:
        self.runs += 1


@pytest.mark.parametrize("case", cases(["sqlite", "postgres"], ways=["leased"]), ids=named)
async def test_a_job_whose_end_the_database_refuses_is_dead_and_says_why(
    case: Case, place: DatabaseOf
) -> None:
    counting = Counting()
    async with case.open(place) as subject:
        subject.job(counting)
        with in_the_way(subject.records, REFUSING[case.kind]):
            id = await subject.enqueue()
            other = await subject.enqueue()
            async with asyncio.timeout(PATIENCE):
                await subject.work()
        row = subject.records.present(id)
        assert row[:3] == ("dead", 1, 0)
        assert row.error is not None
        assert "no such outcome here" in row.error["message"]
        assert subject.records.counted(other) == ("dead", 1, 0)
        assert counting.runs == 2


@pytest.mark.parametrize("case", cases(["postgres"], ways=["leased"]), ids=named)
async def test_an_end_without_room_on_the_disk_is_written_when_there_is(
    case: Case, place: DatabaseOf, caplog: pytest.LogCaptureFixture
) -> None:
    counting = Counting()
    async with case.open(place) as subject:
        subject.job(counting)
        with in_the_way(subject.records, WITHOUT_DISK):
            id = await subject.enqueue()
            async with working(subject, lease=timedelta(milliseconds=500)):
                await seen(lambda: "not settled yet" in caplog.text)
                assert subject.records.present(id).state == "leased"
                take_away(subject.records)
                await seen(lambda: subject.records.job(id) is None)
        assert subject.records.history(id) == [("work", "done", 1)]
        assert counting.runs == 1


@pytest.mark.parametrize("kind", ["again", "dead"])
@pytest.mark.parametrize("desk_case", CASES, ids=str)
def test_many_ends_at_once_change_only_the_jobs_whose_lease_is_the_newest(
    desk_case: DeskCase, kind: Any, request: pytest.FixtureRequest, clock: HandClock
) -> None:
    with desk_case.open(request, clock) as desk:
        desk.job(lambda _: None, attempts=5)
        desk.enqueue_many([1, 2, 3, 4, 5])
        leases = [desk.lease() for _ in range(5)]
        late, forged, gone, *held = leases
        before = rows_of(desk)
        desk.change(f"DELETE FROM duly_jobs WHERE id = '{gone.id}'")
        ended = JobOutcome(
            kind, delay=7_000_000 * (kind == "again"), attempts_used=1, error=b'{"a": 1}'
        )
        # An epoch too old, a token of somebody else, and a job that has left the table.
        old = late.lease._replace(epoch=late.lease.epoch - 1)
        stale = [old, forged.lease._replace(token=bytes(16)), gone.lease]
        ends = [JobSettlement(one, ended) for one in (*stale, *(one.lease for one in held))]

        assert settled(desk, ends) == {one.id for one in held}
        after = rows_of(desk)
        for one in (late, forged):
            assert after[one.id] == before[one.id]
        state = "dead" if kind == "dead" else "ready"
        for one in held:
            assert after[one.id][:5] == (state, 1, 0, one.lease.epoch, None)
        # What is settled once is settled: the second time finds nothing.
        assert settled(desk, ends) == set()
        assert rows_of(desk) == after


def settled(desk: Desk, ends: list[JobSettlement]) -> set[str]:
    """End these leases in one go; those that were held."""
    runner = desk.app.store.sync_runner
    return finish(runner.run(lambda session: settle(session, ends), wait=WAIT))


def rows_of(desk: Desk) -> dict[str, tuple[Any, ...]]:
    """What ends change of the desk's jobs, by their ids."""
    rows = desk.rows(
        "SELECT id, state, attempts, rescues, epoch, worker, run_at, last_error, token"
        " FROM duly_jobs WHERE name = '{name}'"
    )
    return {str(id): tuple(rest) for id, *rest in rows}
