"""The table of a job's states is the truth: every statement moves as it says, on every store."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import duly
from duly.core.ids import new_id
from duly.core.states import JOB_MOVES
from duly.jobs.workers import WorkerIdentity, record_heartbeat, rescue
from duly.worker.rescue import take_back
from tests.conftest import HandClock
from tests.worker.moving import (
    ATTEMPTS,
    BACK,
    HOUR,
    SITUATIONS,
    Bench,
    Situation,
    insert,
    leased,
    take,
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
WRITES = re.compile(r"(?:INSERT INTO|UPDATE|DELETE FROM) \{jobs\}")
# Statements that make a move of the table in another form: in two halves, and for events. Those
# for many are named after the one that they are a form of.
FORMS = {"jobs_remove": "jobs_done", "inbox_accept": "jobs_insert"}
# Ids are never chosen again, so nobody enqueues one that is done: there is nothing to refuse.
REPEATED = ("done", "insert")


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
    return Bench(store, records, clock)


@pytest.mark.promise("I7")
@pytest.mark.parametrize(("situation", "attempt"), ALLOWED)
def test_a_job_moves_as_the_table_says(bench: Bench, situation: Situation, attempt: str) -> None:
    lease = situation.make(bench)
    assert bench.state() == situation.before
    assert bench.attempt(attempt, lease)
    assert bench.state() == situation.allowed[attempt]


@pytest.mark.promise("I7")
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_a_job_moves_in_no_other_way(bench: Bench, situation: Situation) -> None:
    lease = situation.make(bench)
    assert bench.state() == situation.before
    before = bench.everything()
    for attempt in ATTEMPTS:
        if attempt in situation.allowed or (situation.name, attempt) == REPEATED:
            continue
        assert not bench.attempt(attempt, lease), attempt
        assert bench.everything() == before, attempt


def test_rescued_jobs_come_back_each_at_a_moment_of_its_own(bench: Bench) -> None:
    bench.beat()
    jobs = [bench.job, *(new_id() for _ in range(19))]
    bench.run(lambda session: insert_all(session, jobs))
    bench.run(lambda session: take(session, bench.worker, limit=len(jobs)))
    bench.leave()
    bench.rescue()
    moments = {moment for (moment,) in bench.records.rows("SELECT run_at FROM duly_jobs")}
    assert len(moments) == len(jobs)


def test_a_worker_that_was_paused_takes_back_none_of_its_own_leases(bench: Bench) -> None:
    leased(bench)
    bench.clock.advance(timedelta(hours=1))
    assert not bench.run(lambda session: rescue(session, bench.worker))
    assert bench.rescue()


def test_a_worker_that_takes_leases_back_is_not_lost_itself(bench: Bench) -> None:
    leased(bench)
    other = WorkerIdentity(new_id(), "host", 2, "[]", HOUR)
    bench.run(lambda session: record_heartbeat(session, other))
    bench.clock.advance(timedelta(hours=1))  # the clock steps: from now on every worker looks lost
    assert bench.run(lambda session: take_back(session, other))
    bench.clock.advance(BACK)
    assert bench.run(lambda session: take(session, other.id, rescued=True))
    assert not bench.rescue()


async def insert_all(session: Session, jobs: list[str]) -> None:
    for job in jobs:
        await insert(session, job)


def test_every_move_of_the_table_was_seen_and_no_other() -> None:
    seen = {
        (situation.before, after, ATTEMPTS[attempt].statement)
        for situation in SITUATIONS
        for attempt, after in situation.allowed.items()
    }
    assert seen == {(move.before, move.after, move.statement) for move in JOB_MOVES}


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_every_statement_that_changes_jobs_is_in_the_table(dialect: str) -> None:
    changing = {
        file.stem.removesuffix("_many")
        for file in (STATEMENTS / dialect / "statements").glob("*.sql")
        if WRITES.search(file.read_text(encoding="utf-8"))
    }
    assert {FORMS.get(name, name) for name in changing} == {move.statement for move in JOB_MOVES}
