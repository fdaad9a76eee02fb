"""``run_jobs``: what is due runs, one after the other, and what ran is told."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import duly
from duly.testing import HandClock, RunJobs, Trial, clocks, isolated, test_database
from tests.testing.shops import PAID

RAN: list[object] = []
# Of an hour, so that no slot of a schedule is near.
HALF_PAST = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)


def note(job: duly.Job) -> None:
    RAN.append(job.payload)


async def note_awaited(job: duly.Job) -> None:
    RAN.append(job.payload)


def hourly(job: duly.Job) -> None:
    RAN.append(job.payload)


def give_up(job: duly.Job) -> None:
    raise duly.Dead("it cannot be done")


def chain(job: duly.Job, tx: duly.Tx) -> None:
    RAN.append(job.payload)
    if job.payload:
        tx.enqueue(chain, job.payload - 1)


def a_desk(folder: Path) -> duly.Duly:
    """An application with jobs of many kinds."""
    RAN.clear()
    app = duly.Duly(f"sqlite:///{folder / 'real.db'}")
    app.job(note)
    app.job(queue="second")(note_awaited)
    app.job(give_up)
    app.job(queue="third")(chain)
    app.cron("0 * * * *")(hourly)
    return app


def test_what_was_enqueued_first_runs_first(tmp_path: Path) -> None:
    with isolated(a_desk(tmp_path)) as trial:
        for number in range(50):
            trial.app.enqueue(note, number)
        trial.app.enqueue(note, "first", priority=-1)
        assert trial.run_jobs().done == ["note"] * 51
    first, *others = RAN
    assert (first, others) == ("first", list(range(50)))


def test_what_ran_is_told_with_its_end(trial: Trial) -> None:
    job = trial.app.enqueue("flaky", 1)
    [first] = trial.run_jobs()
    assert (first.name, first.outcome, first.attempt, first.job) == ("flaky", "again", 1, job.id)
    assert first.error == "ValueError: attempt 1 fails"
    assert first.traceback is not None
    assert "shops.py" in first.traceback
    assert len(trial.run_jobs()) == 0  # it waits, and nobody waits for it

    trial.clock.advance(hours=1)
    [second] = trial.run_jobs()
    assert (second.outcome, second.attempt, second.error) == ("done", 2, None)


def test_what_is_given_up_is_told(tmp_path: Path) -> None:
    with isolated(a_desk(tmp_path)) as trial:
        trial.app.enqueue(give_up)
        runs = trial.run_jobs()
        assert (runs.dead, runs.done, runs.again, runs.counts) == (["give_up"], [], [], {"dead": 1})
        assert runs.errors == ["duly.Dead: it cannot be done"]
        assert repr(runs) == "<ran: <give_up dead in attempt 1: duly.Dead: it cannot be done>>"
        [letter] = trial.app.jobs.dead()
        assert letter.name == "give_up"


def test_only_as_many_run_as_asked(tmp_path: Path) -> None:
    with isolated(a_desk(tmp_path)) as trial:
        for number in range(5):
            trial.app.enqueue(note, number)
        assert len(trial.run_jobs(times=1)) == 1
        assert len(trial.run_jobs(times=2)) == 2
        assert trial.app.jobs.stats().ready == 2
        assert len(trial.run_jobs(times=10)) == 2
    assert RAN == [0, 1, 2, 3, 4]


def test_a_bulk_handler_runs_its_jobs_together_and_one_by_one_where_runs_are_counted(
    tmp_path: Path,
) -> None:
    sizes: list[int] = []
    app = a_desk(tmp_path)

    @app.job(many=10, name="bulk")
    def bulk(jobs: list[duly.Job], tx: duly.Tx) -> None:
        sizes.append(len(jobs))
        if any(job.payload == "bad" for job in jobs):
            raise duly.Dead("it cannot be done")

    with isolated(app) as trial:
        trial.app.enqueue_many("bulk", list(range(5)))
        assert trial.run_jobs().done == ["bulk"] * 5
        trial.app.enqueue_many("bulk", [1, "bad", 3])
        assert trial.run_jobs().counts == {"done": 2, "dead": 1}
        trial.app.enqueue_many("bulk", list(range(3)))
        assert [len(trial.run_jobs(times=2)), len(trial.run_jobs(times=2))] == [2, 1]
    assert sizes == [5, 3, 1, 1, 1, 1, 1, 1]


def test_until_settled_the_clock_goes_to_whatever_is_due_next(trial: Trial) -> None:
    began = trial.clock.now
    trial.app.enqueue("flaky", 2)
    trial.app.enqueue("flaky", 9)
    trial.app.enqueue("flaky", 0, delay=timedelta(days=3))
    runs = trial.run_jobs(until="settled")
    assert runs.counts == {"again": 4, "done": 2, "dead": 1}
    assert timedelta(days=3) <= trial.clock.now - began < timedelta(days=3, minutes=1)


def test_until_settled_as_many_run_as_asked(trial: Trial) -> None:
    trial.app.enqueue("flaky", 2)
    assert trial.run_jobs(until="settled", times=2).again == ["flaky", "flaky"]
    assert trial.run_jobs(until="settled").done == ["flaky"]


def test_every_queue_has_its_turn_until_all_are_empty(tmp_path: Path) -> None:
    with isolated(a_desk(tmp_path)) as trial:
        trial.app.enqueue(chain, 3)
        trial.app.enqueue(note_awaited, "second")
        trial.app.enqueue(note, "first")
        assert trial.run_jobs().done == ["note", "note_awaited", *["chain"] * 4]
    assert RAN == ["first", "second", 3, 2, 1, 0]


def test_a_schedule_follows_the_clock(tmp_path: Path) -> None:
    with isolated(a_desk(tmp_path), clock=HandClock(HALF_PAST)) as trial:
        assert len(trial.run_jobs()) == 0
        for _ in range(3):
            trial.clock.advance(hours=1)
            assert trial.run_jobs().done == ["hourly"]
            assert len(trial.run_jobs()) == 0


def test_a_key_is_known_as_long_as_its_window_by_the_clock(tmp_path: Path) -> None:
    with isolated(a_desk(tmp_path)) as trial:
        assert trial.app.enqueue(note, key="k").first
        trial.run_jobs()
        trial.clock.advance(hours=23)
        assert trial.app.enqueue(note, key="k").duplicate
        trial.clock.advance(hours=2)
        assert trial.app.enqueue(note, key="k").first


async def test_jobs_run_in_the_tests_own_event_loop(tmp_path: Path, own_postgres_url: str) -> None:
    for url in (None, test_database(own_postgres_url)):
        with isolated(a_desk(tmp_path), url=url) as trial:
            await trial.app.aio.enqueue(note_awaited, 1)
            assert (await trial.run_jobs.aio()).done == ["note_awaited"]
            await trial.app.process.release_loop()
        assert RAN == [1]


def test_on_a_server_the_same_holds(tmp_path: Path, own_postgres_url: str) -> None:
    url = test_database(own_postgres_url)
    with isolated(a_desk(tmp_path), url=url, clock=HandClock(HALF_PAST)) as trial:
        trial.run_jobs()
        for number in range(5):
            trial.app.enqueue(note, number)
        trial.clock.advance(hours=1)
        assert sorted(trial.run_jobs().done) == ["hourly", *["note"] * 5]
    assert [one for one in RAN if isinstance(one, int)] == [0, 1, 2, 3, 4]


async def test_a_running_event_loop_names_the_awaited_twin(trial: Trial) -> None:
    with pytest.raises(duly.errors.SyncAsyncMismatch, match=r"await run_jobs\.aio"):
        trial.run_jobs()
    with pytest.raises(duly.errors.SyncAsyncMismatch, match=r"await run_relay\.aio"):
        trial.run_relay()


def test_a_mistake_is_told(trial: Trial, tmp_path: Path) -> None:
    with pytest.raises(duly.errors.UsageError, match='"idle" or "settled"'):
        trial.run_jobs(until="never")  # type: ignore[arg-type]
    with pytest.raises(duly.errors.UsageError, match="times"):
        trial.run_jobs(times=0)
    app = duly.Duly("memory:")
    with pytest.raises(duly.errors.UsageError, match="pass clock=, the HandClock"):
        RunJobs(app)(until="settled")
    app.job(note)
    app.enqueue(note, delay=timedelta(hours=1))
    with pytest.raises(duly.errors.UsageError, match="the app did not notice"):
        RunJobs(app, HandClock())(until="settled")
    app.close()


def never(job: duly.Job) -> duly.NotYet:
    return duly.NotYet(after=timedelta(seconds=1), until=timedelta(days=365))


def test_what_is_never_settled_does_not_keep_a_test_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clocks, "MOST_MOVES", 5)
    app = a_desk(tmp_path)
    app.job(never)
    with isolated(app) as trial:
        trial.app.enqueue(never)
        with pytest.raises(duly.errors.UsageError, match="after 5 moves of the clock"):
            trial.run_jobs(until="settled")


def test_a_worker_that_was_lost_is_seen_when_its_lease_is_over(trial: Trial) -> None:
    trial.app.enqueue("flaky", 0)
    with trial.app.transaction() as tx:  # as a worker leaves it that was killed
        tx.execute(
            "UPDATE duly_jobs SET state = 'leased', token = :token, epoch = 1, worker = 'gone', "
            "deadline = run_at + 600000000",
            token=b"0" * 16,
        )
    assert len(trial.run_jobs()) == 0
    trial.clock.advance(hours=1)
    assert trial.run_jobs(until="settled").done == ["flaky"]


def test_events_that_are_stale_are_told(tmp_path: Path) -> None:
    app = duly.Duly(f"sqlite:///{tmp_path / 'real.db'}")
    app.source("stripe", secret="whsec_x")
    app.on("stripe", order=("data.object.id", "created"))(in_order)
    with isolated(app) as trial:
        now = int(trial.clock.now.timestamp())
        for created in (now, now - 1):
            trial.deliver("stripe", {**PAID, "id": f"evt_{created}", "created": created})
        runs = trial.run_jobs()
        assert (runs.done, runs.stale) == (["in_order"], ["in_order"])


def in_order(event: duly.Event, tx: duly.Tx) -> None: ...
