"""Bulk handlers: a batch is committed as a whole, or not at all, and then each job runs alone."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.core.ids import new_id
from duly.core.onestep import finish
from duly.worker import executor, heartbeat, run_job
from duly.worker.execution import Batch
from tests.support.processes.leading import PATIENCE
from tests.worker.records import WRITE
from tests.worker.subjects import AT_ONCE, cases, seen, working

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from duly.worker.execution import Execution
    from tests.worker.subjects import Case, DatabaseOf, Subject

    Body = Callable[["Hands"], Awaitable[object]]
    Versions = Callable[[str, int], dict[str, Any]]

SHORT = timedelta(milliseconds=300)
# On SQLite nobody else can write while a batch has its transaction.
POSTGRES = cases(kinds=["postgres"], ways=["tx"])
FILES = cases(kinds=["sqlite", "postgres"], ways=["tx"])
SYNC = [case for case in FILES if case.colour == "sync"]


class Trouble(Exception):
    """Something that goes wrong in a handler."""


class Hands:
    """One call of a bulk handler, the same to use in every colour."""

    def __init__(self, subject: Subject, jobs: list[Any], tx: Any) -> None:
        self.subject, self.jobs, self.tx = subject, jobs, tx

    @property
    def payloads(self) -> list[Any]:
        return [job.payload for job in self.jobs]

    @property
    def is_batch(self) -> bool:
        return len(self.jobs) > 1

    async def waited(self, result: Any) -> Any:
        """The same call blocks in one colour and is awaited in the other."""
        return await result if self.subject.case.colour == "async" else result

    async def write(self) -> None:
        """Leave a row for each job."""
        for job in self.jobs:
            await self.waited(self.tx.execute(WRITE, job=job.id, note=str(job.payload)))

    async def hang(self) -> None:
        """Take time without an end, until the transaction is taken away."""
        sleep = "SELECT pg_sleep(0.1)" if self.subject.case.kind == "postgres" else "SELECT 1"
        for _ in range(int(PATIENCE / 0.1)):
            await self.waited(self.tx.execute(sleep))
            if self.subject.case.kind != "postgres":
                time.sleep(0.01)  # noqa: ASYNC251  # as a statement of SQLite's does


class Calls:
    """The lists that a bulk handler was called with."""

    def __init__(self, subject: Subject, body: Body, **options: Any) -> None:
        self.lists: list[list[Any]] = []
        self.jobs: list[Any] = []
        options.setdefault("backoff", AT_ONCE)
        options.setdefault("many", 100)

        def note(jobs: list[Any], tx: Any) -> Hands:
            self.lists.append([job.payload for job in jobs])
            self.jobs += jobs
            return Hands(subject, jobs, tx)

        def bulk(jobs: list[Any], tx: Any) -> Any:
            return finish(body(note(jobs, tx)))  # type: ignore[arg-type]

        async def bulk_awaited(jobs: list[Any], tx: Any) -> Any:
            return await body(note(jobs, tx))

        handler = bulk if subject.case.colour == "sync" else bulk_awaited
        subject.app.job(name="work", **options)(handler)

    @property
    def sizes(self) -> list[int]:
        return [len(each) for each in self.lists]


async def enqueued(subject: Subject, payloads: list[Any]) -> dict[Any, str]:
    """The ids of new jobs by what they are about; they run in this order."""

    def enqueue() -> dict[Any, str]:
        with subject.app.transaction() as tx:
            return {
                str(payload): tx.enqueue("work", payload, priority=number).id
                for number, payload in enumerate(payloads)
            }

    return await asyncio.to_thread(enqueue)


def jobs_done(subject: Subject) -> Counter[tuple[str, int]]:
    """The outcomes in the history, with the attempts."""
    return Counter(subject.records.rows("SELECT outcome, attempts FROM duly_history"))


@pytest.mark.promise("I2", "I3", "one transaction")
async def test_a_batch_is_one_call_one_transaction_and_one_end(
    with_tx: Case, place: DatabaseOf
) -> None:
    open_rows: list[Any] = []

    async def work(hands: Hands) -> None:
        await hands.write()
        await hands.waited(hands.tx.enqueue("child", len(hands.jobs)))
        open_rows.append(hands.subject.records.place.rows("SELECT note FROM workings"))
        assert [job.attempt for job in hands.jobs] == [1] * 37
        assert len({job.key("charge") for job in hands.jobs}) == 37

    async def child(hand: Any) -> None:
        await hand.write("child")

    async with with_tx.open(place) as subject:
        calls = Calls(subject, work)
        subject.job(child, name="child")
        ids = await enqueued(subject, list(range(37)))
        worked = await subject.work()
        assert (worked.done, worked.retried, worked.dead, worked.lost) == (38, 0, 0, 0)
        assert calls.lists == [list(range(37))]
        assert open_rows == [[]]  # nothing was committed before its end
        assert sorted(subject.records.notes()) == sorted([*map(str, range(37)), "child"])
        assert jobs_done(subject) == {("done", 1): 38}
        assert subject.records.states() == []
        assert {job.id for job in calls.jobs} == set(ids.values())
        if with_tx.kind == "postgres":  # which tells which transaction wrote a row
            writers = subject.records.rows(
                "SELECT xmin::text FROM workings WHERE note <> 'child' UNION "
                "SELECT xmin::text FROM duly_history WHERE name = 'work'"
            )
            assert len(writers) == 1


async def test_a_batch_is_no_larger_than_many(with_tx: Case, place: DatabaseOf) -> None:
    async with with_tx.open(place) as subject:
        calls = Calls(subject, Hands.write, many=10)
        await enqueued(subject, list(range(25)))
        assert (await subject.work(concurrency=1)).done == 25
        assert max(calls.sizes) == 10
        assert sorted(chain.from_iterable(calls.lists)) == list(range(25))


def ending(how: str) -> object:
    """What a handler returns or raises for a bad job."""
    ends: dict[str, object] = {
        "error": Trouble(),
        "retry": duly.Retry(after=timedelta(hours=1)),
        "not yet": duly.NotYet(after=timedelta(hours=1)),
        "dead": duly.Dead("gave up"),
        "exit": SystemExit(3),
    }
    return ends[how]


# The state, attempts and rescues of the bad job at the end.
ENDS = {
    "error": ("dead", 2, 0),
    "exit": ("dead", 2, 0),
    "retry": ("ready", 1, 0),
    "not yet": ("ready", 0, 0),
    "dead": ("dead", 1, 0),
}


@pytest.mark.promise("I3", "I9", "one transaction")
@pytest.mark.parametrize("returned", [False, True], ids=["raised", "returned"])
@pytest.mark.parametrize("how", ENDS)
async def test_one_bad_job_rolls_its_batch_back_and_costs_no_other_an_attempt(
    with_tx: Case, place: DatabaseOf, how: str, returned: bool
) -> None:
    if returned and how in ("error", "exit"):
        returned = False  # what is no outcome cannot be returned as one

    async def work(hands: Hands) -> object:
        await hands.write()
        await hands.waited(hands.tx.enqueue("work", "child", delay=timedelta(hours=1)))
        if "bad" not in hands.payloads:
            return None
        end = ending(how)
        if not returned and isinstance(end, BaseException):
            raise end
        return end

    async with with_tx.open(place) as subject:
        calls = Calls(subject, work, attempts=2)
        ids = await enqueued(subject, [1, 2, "bad", 3, 4])
        worked = await subject.work()
        assert (worked.done, worked.lost) == (4, 0)
        assert calls.sizes[0] == 5
        assert set(calls.sizes[1:]) == {1}
        assert subject.records.notes() == ["1", "2", "3", "4"]
        assert jobs_done(subject) == {("done", 1): 4}
        assert subject.records.counted(ids["bad"]) == ENDS[how]
        assert len(subject.records.states()) == 5  # a child of each that is done, and the bad one


@pytest.mark.promise("I3")
async def test_outcomes_for_some_jobs_are_refused_with_the_remedy(
    with_tx: Case, place: DatabaseOf
) -> None:
    async def work(hands: Hands) -> object:
        await hands.write()
        if "bad" not in hands.payloads:
            return ["anything", "else"]
        return [duly.Dead("this one") if one == "bad" else None for one in hands.payloads]

    async with with_tx.open(place) as subject:
        Calls(subject, work)
        ids = await enqueued(subject, [1, "bad", 2])
        assert (await subject.work()).done == 2
        assert subject.records.notes() == ["1", "2"]
        error = subject.records.present(ids["bad"]).error
        assert error is not None
        assert error["type"] == "duly.errors.UsageError"
        assert "return or raise the outcome itself" in error["message"]


@pytest.mark.promise("I9")
@pytest.mark.parametrize("counter", ["attempts", "rescues"])
async def test_a_job_that_failed_or_was_rescued_joins_no_batch(
    with_tx: Case, place: DatabaseOf, counter: str
) -> None:
    async with with_tx.open(place) as subject:
        calls = Calls(subject, Hands.write, attempts=5)
        ids = await enqueued(subject, [1, 2, "again", 3])
        subject.records.run(f"UPDATE duly_jobs SET {counter} = 1 WHERE id = '{ids['again']}'")
        assert (await subject.work()).done == 4
        assert sorted(calls.lists, key=len) == [["again"], [1, 2, 3]]
        assert len(subject.records.notes()) == 4


def before_begin(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[Batch], object]) -> None:
    """Have something happen between the lease of a batch and its BEGIN."""
    begin = run_job.run_in_transaction

    async def late(run: Execution, *positional: Any, **options: Any) -> Any:
        if isinstance(run, Batch):
            meanwhile(run)
        return await begin(run, *positional, **options)

    monkeypatch.setattr(run_job, "run_in_transaction", late)


@pytest.mark.promise("I3", "I8")
@pytest.mark.parametrize("by", ["taken", "finished elsewhere"])
async def test_a_batch_of_which_one_lease_is_lost_leaves_nothing_and_the_others_are_done_once(
    with_tx: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    async with with_tx.open(place) as subject:
        calls = Calls(subject, Hands.write)
        ids = await enqueued(subject, [1, "lost", 2])
        records = subject.records
        lose = records.steal if by == "taken" else records.finish_elsewhere
        before_begin(monkeypatch, lambda batch: lose(batch.members[1].id))
        worked = await subject.work()
        assert (worked.done, worked.lost, worked.retried, worked.dead) == (2, 1, 0, 0)
        assert sorted(map(str, calls.lists)) == ["[1, 'lost', 2]", "[1]", "[2]"]
        assert records.notes() == ["1", "2"]
        assert jobs_done(subject) == {("done", 1): 2}
        if by == "taken":
            assert records.present(ids["lost"])[:4] == ("leased", 0, 0, 2)


@pytest.mark.promise("I8")
@pytest.mark.parametrize("case", POSTGRES, ids=lambda case: case.name)
async def test_a_batch_at_work_is_stopped_when_the_heartbeat_finds_one_lease_lost(
    case: Case, place: DatabaseOf
) -> None:
    async def work(hands: Hands) -> None:
        await hands.write()
        if hands.is_batch:
            hands.subject.records.steal(hands.jobs[1].id)
            await hands.hang()

    async with case.open(place) as subject:
        calls = Calls(subject, work)
        ids = await enqueued(subject, [1, "lost", 2])
        async with asyncio.timeout(PATIENCE):
            worked = await subject.work(lease=SHORT)
        assert (worked.done, worked.lost) == (2, 1)
        assert sorted(map(str, calls.lists)) == ["[1, 'lost', 2]", "[1]", "[2]"]
        assert subject.records.notes() == ["1", "2"]
        assert subject.records.present(ids["lost"])[:4] == ("leased", 0, 0, 2)


@pytest.mark.promise("I3", "I9")
@pytest.mark.parametrize("case", FILES, ids=lambda case: case.name)
async def test_a_batch_that_takes_too_long_is_rolled_back_and_uses_no_attempt(
    case: Case, place: DatabaseOf
) -> None:
    async def work(hands: Hands) -> None:
        await hands.write()
        if hands.is_batch:
            await hands.hang()

    async with case.open(place) as subject:
        calls = Calls(subject, work, timeout=timedelta(seconds=1))
        await enqueued(subject, [1, 2, 3])
        worked = await subject.work()
        assert (worked.done, worked.retried, worked.dead, worked.lost) == (3, 0, 0, 0)
        assert calls.sizes == [3, 1, 1, 1]
        assert subject.records.notes() == ["1", "2", "3"]
        assert jobs_done(subject) == {("done", 1): 3}


@pytest.mark.promise("I3", "I9", "I12")
@pytest.mark.parametrize("case", SYNC, ids=lambda case: case.name)
async def test_a_batch_that_does_not_end_at_its_timeout_counts_as_rescued(
    case: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    late: list[str] = []

    async def work(hands: Hands) -> None:
        await hands.write()
        if hands.is_batch:
            assert gate.wait(PATIENCE)
            try:
                await hands.write()
            except Exception as problem:
                late.append(type(problem).__name__)
                raise

    monkeypatch.setattr(executor, "ENDING", 0.2)
    async with case.open(place) as subject:
        calls = Calls(subject, work, timeout=timedelta(seconds=1))
        await enqueued(subject, [1, 2])
        try:
            worked = await subject.work()
            assert (worked.retried, worked.dead, worked.lost) == (2, 0, 0)
        finally:
            gate.set()
        await seen(lambda: bool(late))
        async with working(subject):
            await seen(lambda: subject.records.states() == [])
        assert [job.rescues for job in calls.jobs] == [0, 0, 1, 1]
        assert subject.records.notes() == ["1", "2"]
        assert jobs_done(subject) == {("done", 1): 2}


@pytest.mark.promise("I3", "I8", "I9")
@pytest.mark.parametrize(
    "case", [case for case in POSTGRES if case.colour == "async"], ids=lambda case: case.name
)
async def test_a_batch_that_blocks_its_event_loop_beyond_its_timeout_is_ended_from_outside(
    case: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[Any] = []

    async def work(hands: Hands) -> None:
        await hands.write()
        deadline = time.monotonic() + PATIENCE
        look = "SELECT rescues FROM duly_jobs WHERE state = 'ready'"
        while hands.is_batch and not ended:
            assert time.monotonic() < deadline, "nobody ended it"
            ended.extend(hands.subject.records.place.rows(look))
            time.sleep(0.02)  # noqa: ASYNC251  # what it must not do

    monkeypatch.setattr(heartbeat, "BEATS", 15)
    monkeypatch.setattr(heartbeat, "GRACE", 0.1)
    async with case.open(place) as subject:
        calls = Calls(subject, work, timeout=timedelta(seconds=1))
        await enqueued(subject, [1, 2])
        async with working(subject, lease=timedelta(seconds=3)):
            await seen(lambda: subject.records.states() == [])
        assert ended == [(1,), (1,)]
        assert sorted(calls.sizes) == [1, 1, 2]
        assert subject.records.notes() == ["1", "2"]
        assert jobs_done(subject) == {("done", 1): 2}


@pytest.mark.promise("I6", "I9")
@pytest.mark.parametrize(
    "case", [case for case in FILES if case.colour == "async"], ids=lambda case: case.name
)
async def test_a_batch_whose_worker_is_told_to_end_now_counts_as_rescued(
    case: Case, place: DatabaseOf
) -> None:
    async def work(hands: Hands) -> None:
        await hands.write()
        if hands.is_batch:
            await hands.hang()

    async with case.open(place) as subject:
        calls = Calls(subject, work)
        ids = await enqueued(subject, [1, 2])
        async with working(subject) as worker:
            await seen(lambda: calls.sizes == [2])
            worker.stop_now()
        assert {subject.records.counted(id) for id in ids.values()} == {("ready", 0, 1)}
        assert subject.records.notes() == []


@pytest.mark.promise("I6")
async def test_a_batch_that_could_not_begin_is_a_batch_again(
    with_tx: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_job, "BUSY", 1)

    def busy(batch: Batch) -> None:
        if not refused:
            refused.append(len(batch.members))
            raise run_job.NotStarted

    refused: list[int] = []
    async with with_tx.open(place) as subject:
        calls = Calls(subject, Hands.write)
        await enqueued(subject, [1, 2, 3])
        before_begin(monkeypatch, busy)
        worked = await subject.work()
        assert (worked.done, worked.retried) == (3, 3)
        assert (refused, sorted(chain.from_iterable(calls.lists))) == ([3], [1, 2, 3])
        assert jobs_done(subject) == {("done", 1): 3}


@pytest.fixture
def version() -> Callable[[str, int], dict[str, Any]]:
    """The payload of an ordered job; versions stay known, so each test has accounts of its own."""
    apart = new_id()
    return lambda account, number: {"account": f"{account} {apart}", "version": number}


@pytest.mark.promise("I3")
async def test_two_versions_of_one_resource_never_share_a_batch(
    with_tx: Case, place: DatabaseOf, version: Versions
) -> None:
    async with with_tx.open(place) as subject:
        calls = Calls(subject, Hands.write, order=("account", "version"))
        first = [version("a", 1), version("b", 1), version("a", 2), version("c", 1)]
        await enqueued(subject, first)
        worked = await subject.work(concurrency=1)
        assert (worked.done, worked.stale) == (4, 0)
        assert calls.lists == [[first[0], first[1], first[3]], [first[2]]]


@pytest.mark.promise("I3")
async def test_stale_jobs_of_a_batch_are_settled_as_stale_and_not_handled(
    with_tx: Case, place: DatabaseOf, version: Versions
) -> None:
    async with with_tx.open(place) as subject:
        calls = Calls(subject, Hands.write, order=("account", "version"))
        await enqueued(subject, [version("a", 5)])
        assert (await subject.work()).done == 1
        late = [version("a", 3), version("b", 1), {"version": 1}, version("c", 1)]
        ids = await enqueued(subject, late)
        worked = await subject.work()
        assert (worked.done, worked.stale, worked.dead) == (2, 1, 1)
        assert calls.lists == [[version("a", 5)], [late[1], late[3]]]
        error = subject.records.present(ids[str({"version": 1})]).error
        assert error is not None
        assert "is ordered by 'account'" in error["message"]
        assert "this payload has no text" in error["message"]
        # Nothing is left to handle where all are stale.
        await enqueued(subject, [version("a", 1), version("b", 0)])
        assert (await subject.work()).stale == 2
        assert len(calls.lists) == 2
        assert len(subject.records.notes()) == 3


@pytest.mark.promise("I3")
async def test_a_plain_job_is_passed_over_when_a_later_version_was_applied(
    case: Case, place: DatabaseOf, version: Versions
) -> None:
    ran: list[int] = []

    async def work(hand: Any) -> None:
        ran.append(hand.job.payload["version"])

    async with case.open(place) as subject:
        subject.job(work, order=("account", "version"))
        for priority, number in enumerate((2, 1, 3)):
            await subject.enqueue(payload=version("a", number), priority=priority)
        worked = await subject.work(concurrency=1)
        assert (worked.done, worked.stale, ran) == (2, 1, [2, 3])


@pytest.mark.parametrize("case", POSTGRES, ids=lambda case: case.name)
async def test_the_run_log_names_the_batch_and_the_log_says_why_it_was_rolled_back(
    case: Case, place: DatabaseOf, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(hands: Hands) -> None:
        if "bad" in hands.payloads:
            raise Trouble("token=whsec_" + "A" * 32)

    caplog.set_level(logging.DEBUG, "duly")
    async with case.open(place) as subject:
        Calls(subject, work)
        await enqueued(subject, [1, 2, 3])
        await subject.work()
        runs = [one for one in caplog.records if one.name == "duly.worker"]
        assert len(runs) == 3
        assert all("attempt 1 of 1, in a batch of 3" in one.getMessage() for one in runs)
        assert {one.members["batch"] for one in runs} == {3}  # type: ignore[attr-defined]
        await enqueued(subject, [1, "bad"])
        await subject.work()
        assert "a batch of 2 jobs (work) was rolled back, and they run one by one" in caplog.text
        assert "whsec_" not in caplog.text


def bulk(jobs: list[duly.Job], tx: duly.Tx) -> None:
    """A bulk handler; never run here."""


def test_what_cannot_be_a_bulk_handler_is_refused_with_the_remedy() -> None:
    def without_tx(jobs: list[duly.Job]) -> None: ...
    def without_jobs(tx: duly.Tx) -> None: ...
    def of_one(job: duly.Job, tx: duly.Tx) -> None: ...

    app = duly.Duly("memory:")
    app.source("github", secret="a secret", provider="github")
    add: Any = app.job(many=100, name="sell")
    for function, missing in ((without_tx, "'tx'"), (without_jobs, "'jobs'"), (of_one, "'job'")):
        with pytest.raises(duly.errors.UsageError, match=missing) as refused:
            add(function)
        assert "def sell(jobs, tx)" in str(refused.value)
    plain: Any = app.job
    with pytest.raises(duly.errors.UsageError, match=r"jobs is for @app\.job\(many=…\)"):
        plain(bulk)
    on: Any = app.on
    with pytest.raises(duly.errors.UsageError, match=r"not for @app\.on.*tx\.enqueue\(sell"):
        on("github", many=5)
    cron: Any = app.cron
    with pytest.raises(duly.errors.UsageError, match=r"not for @app\.cron: each slot is one job"):
        cron("* * * * *", many=5)
    with pytest.raises(duly.errors.UsageError, match=r"refetch= is for @app\.on"):
        plain(many=5, refetch=print)
    assert app.registries.jobs.all() == []
    app.close()


async def test_an_effect_in_a_bulk_handler_is_refused_with_the_remedy(
    with_tx: Case, place: DatabaseOf
) -> None:
    async def work(hands: Hands) -> None:
        await hands.waited(hands.jobs[0].effect("charge", lambda _: None))

    async with with_tx.open(place) as subject:
        Calls(subject, work)
        ids = await enqueued(subject, [1, 2])
        assert (await subject.work()).dead == 2
        error = subject.records.present(ids["1"]).error
        assert error is not None
        assert "Make it a job of its own with tx.enqueue" in error["message"]
