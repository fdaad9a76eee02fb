"""A replay makes dead jobs ready again, each once, at the pace that was asked for."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.core.onestep import finish
from duly.jobs.dead import JobSelection, plan_of
from duly.ledger import replay as replaying
from tests.jobs.dead.dying import AT_ONCE, EVERY_STORE, SECOND, killed, letters, replay
from tests.jobs.enqueue.desks import CASES

if TYPE_CHECKING:
    from tests.jobs.enqueue.desks import Case, Desk

BLOCKING = [case for case in CASES if case.colour == "sync"]


def run_times(desk: Desk) -> list[int]:
    """When the desk's jobs may run, in microseconds."""
    column = "run_at"
    if desk.app.store.capabilities.concurrent_writers:
        column = "(extract(epoch FROM run_at) * 1000000)::bigint"
    query = f"SELECT {column} FROM duly_jobs WHERE name = '{{name}}' ORDER BY run_at, id"
    return [int(moment) for (moment,) in desk.rows(query)]


@EVERY_STORE
def test_a_replayed_job_runs_again_with_all_its_attempts_before_it(desk: Desk) -> None:
    attempts: list[int] = []

    def body(job: Any) -> None:
        attempts.append(job.attempt)
        if len(attempts) < 4:
            raise ValueError("not this time")

    desk.job(body, attempts=2, backoff=AT_ONCE)
    job = desk.enqueue().id
    desk.work()
    [(epoch,)] = desk.rows("SELECT epoch FROM duly_jobs WHERE name = '{name}'")
    desk.change("UPDATE duly_jobs SET rescues = 3 WHERE name = '{name}'")
    assert replay(desk, job) == duly.types.Replayed((job,))
    query = "SELECT state, attempts, rescues, dead_at, epoch FROM duly_jobs WHERE name = '{name}'"
    assert desk.rows(query) == [("ready", 0, 0, None, epoch)]
    assert replay(desk, job) == duly.types.Replayed(())
    assert desk.work().done == 1
    assert attempts == [1, 2, 1, 2]
    assert (desk.jobs(), desk.outcomes()) == ([], ["done"])


@EVERY_STORE
def test_a_replay_touches_only_what_it_chooses_and_a_dry_run_nothing(desk: Desk) -> None:
    first, second, third = killed(desk, [1, 2, 3])
    since = letters(desk, second)[0].dead_at
    before = desk.jobs()
    assert replay(desk, name=desk.name, since=since, dry_run=True) == duly.types.Replayed(
        (second, third), dry_run=True
    )
    assert replay(desk, second, dry_run=True).ids == (second,)
    assert desk.jobs() == before
    assert replay(desk, name=desk.name, since=since).ids == (second, third)
    assert dict(desk.jobs()) == {first: "dead", second: "ready", third: "ready"}
    assert set(replay(desk, all=True).ids) >= {first}
    assert {state for _, state in desk.jobs()} == {"ready"}


@EVERY_STORE
def test_a_rate_is_written_with_the_jobs_whatever_becomes_of_the_caller(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaying, "CHUNK", 2)
    ids = killed(desk, [1, 2, 3, 4, 5])
    assert replay(desk, name=desk.name, rate=2).ids == tuple(ids)
    begun, *others = run_times(desk)
    assert [moment - begun for moment in others] == [500_000, 1_000_000, 1_500_000, 2_000_000]
    waiting = desk.rows("SELECT waiting FROM duly_jobs WHERE name = '{name}' ORDER BY run_at")
    assert [bool(one) for (one,) in waiting] == [False, True, True, True, True]
    assert desk.clock is not None
    desk.clock.advance(timedelta(seconds=1.2))
    assert desk.work().dead == 3
    desk.clock.advance(SECOND)
    assert desk.work().dead == 2


@EVERY_STORE
def test_of_many_who_replay_at_once_each_job_comes_back_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaying, "CHUNK", 7)
    runs: list[Any] = []
    desk.job(lambda job: runs.append(job.payload))
    ids = [made.id for made in desk.enqueue_many(list(range(40)))]
    desk.change("UPDATE duly_jobs SET state = 'dead', dead_at = run_at WHERE name = '{name}'")
    together = threading.Barrier(6)
    plan = plan_of(JobSelection(name=desk.name), None, dry_run=False, everything=False)

    def press(_: int) -> tuple[str, ...]:
        with closing(desk.app.store.apart()) as store:  # as in a process of its own
            store.open()
            together.wait()
            return finish(replaying.replay(store.sync_runner, plan)).ids

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(press, range(6)))
    replayed = [job for answer in answers for job in answer]
    assert sorted(replayed) == sorted(ids)
    assert desk.work().done == 40
    assert sorted(runs) == list(range(40))


@pytest.mark.parametrize("case", BLOCKING, ids=str)
def test_what_dies_again_while_a_replay_goes_on_is_not_replayed_once_more(
    case: Case, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaying, "CHUNK", 2)
    with case.open(request) as desk:  # by the database's own clock
        ids = killed(desk, [1, 2, 3, 4])
        rounds = []

        def between(n: int) -> None:
            rounds.append(n)
            assert len(rounds) < 10, "it would never end"
            assert desk.work().dead == 2

        plan = plan_of(JobSelection(name=desk.name), None, dry_run=False, everything=False)
        done = finish(replaying.replay(desk.app.store.sync_runner, plan, between))
        assert done.ids == tuple(ids)
        assert rounds == [2, 4]


@EVERY_STORE
def test_which_dead_letters_must_be_said(desk: Desk) -> None:
    [job] = killed(desk, [1])
    since = datetime(2026, 1, 1, tzinfo=UTC)
    for arguments in ({}, {"rate": 5}, {"dry_run": True}):
        with pytest.raises(duly.errors.UsageError, match="or all=True for every one of them"):
            replay(desk, **arguments)
    with pytest.raises(
        duly.errors.UsageError, match="give the id of one job, or since=, and not both"
    ):
        replay(desk, job, since=since)
    with pytest.raises(duly.errors.UsageError, match="all=True means every dead letter"):
        replay(desk, since=since, all=True)
    assert desk.jobs() == [(job, "dead")]
