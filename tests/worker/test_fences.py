"""Only the newest lease counts: whoever lost it changes no row and leaves none behind."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.worker import run_job
from duly.worker.settings import WorkerSettings
from tests.worker.subjects import cases, seen

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.worker.execution import Execution
    from tests.worker.subjects import Case, DatabaseOf, Hand, Subject

SHORT = timedelta(milliseconds=200)
LONG = timedelta(hours=1)
# What SQLite calls a stopped worker: one that is stopped before BEGIN. Inside, it has the lock.
OPEN = [case for case in cases() if not case.locks]


class Trouble(Exception):
    """Something that goes wrong in a handler."""


def ending(how: str) -> object:
    """What a handler returns or raises at its end."""
    ends = {
        "done": None,
        "error": Trouble(),
        "retry": duly.Retry(after=timedelta(0)),
        "dead": duly.Dead("gave up"),
        "not yet": duly.NotYet(after=timedelta(seconds=1)),
    }
    return ends[how]


def lose(hand: Hand, by: str) -> None:
    """While the handler runs, its lease is taken, or the job is finished elsewhere."""
    records = hand.subject.records
    if by == "finished elsewhere":
        records.finish_elsewhere(hand.job.id)
    else:
        records.steal(hand.job.id)


@pytest.mark.promise("I8")
@pytest.mark.parametrize("by", ["taken", "finished elsewhere"])
@pytest.mark.parametrize("case", OPEN, ids=lambda case: case.name)
async def test_a_run_that_lost_its_lease_settles_nothing_whatever_its_end(
    case: Case, place: DatabaseOf, by: str
) -> None:
    kept: dict[str, Any] = {}

    async def loses(hand: Hand) -> object:
        if hand.tx is not None:
            await hand.write("late")
            await hand.enqueue("work", "done")
        lose(hand, by)
        kept[hand.job.id] = hand.subject.records.place.rows(
            f"SELECT * FROM duly_jobs WHERE id = '{hand.job.id}'"
        )
        end = ending(hand.job.payload)
        if isinstance(end, Trouble):
            raise end
        return end

    async with case.open(place) as subject:
        subject.job(loses, attempts=5)
        ids = [
            await subject.enqueue(payload=how)
            for how in ("done", "error", "retry", "dead", "not yet")
        ]
        worked = await subject.work()
        assert (worked.lost, worked.done, worked.retried, worked.dead) == (5, 0, 0, 0)
        assert sorted(kept) == sorted(ids)  # and no child of theirs
        for id in ids:
            assert subject.records.rows(f"SELECT * FROM duly_jobs WHERE id = '{id}'") == kept[id], (
                "the one who has the lease now finds it as it was"
            )
            assert subject.records.history(id) == []
        assert subject.records.notes() == []


@pytest.mark.promise("I8")
async def test_a_transaction_begun_after_the_lease_was_lost_leaves_nothing(
    with_tx: Case, place: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    async def works(hand: Hand) -> None:
        ran.append(hand.job.id)
        await hand.write("late")
        await hand.enqueue("work")

    async with with_tx.open(place) as subject:
        stop_before_begin(monkeypatch, subject.records.steal)
        subject.job(works)
        id = await subject.enqueue()
        worked = await subject.work()
        assert (worked.lost, worked.done) == (1, 0)
        assert ran == [id]
        assert subject.records.present(id)[:4] == ("leased", 0, 0, 2)
        assert (subject.records.notes(), subject.records.history(id)) == ([], [])
        assert subject.records.states() == ["leased"]


def stop_before_begin(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[str], object]) -> None:
    """Have something happen between the lease and the BEGIN of its transaction."""
    begin = run_job.run_in_transaction

    async def late(run: Execution, *positional: Any, **options: Any) -> Any:
        meanwhile(run.leased.id)
        return await begin(run, *positional, **options)

    monkeypatch.setattr(run_job, "run_in_transaction", late)


async def intends(hand: Hand, steal: Callable[[], None]) -> None:
    steal()
    await hand.effect("charge", lambda _: pytest.fail("the card was charged"))


async def finishes(hand: Hand, steal: Callable[[], None]) -> None:
    await hand.effect("charge", lambda _: steal())


async def undoes(hand: Hand, steal: Callable[[], None]) -> None:
    def refuse(key: str) -> None:
        steal()
        raise Trouble

    await hand.effect("charge", refuse, not_done=(Trouble,))


async def breaks(hand: Hand, steal: Callable[[], None]) -> None:
    def fail(key: str) -> None:
        steal()
        raise Trouble

    await hand.effect("charge", fail)


STEPS = {step.__name__: step for step in (intends, finishes, undoes, breaks)}
# What is written before the lease is lost, and stays as it was.
WRITES = {"intends": [], "finishes": ["intended"], "undoes": ["intended"], "breaks": ["intended"]}
PARTS = {"token": ("token",), "epoch": ("epoch",), "both": ()}


@pytest.mark.promise("I8")
async def test_an_effect_of_a_run_that_lost_its_lease_is_refused_and_nothing_is_written(
    leased: Case, place: DatabaseOf
) -> None:
    refused: list[str] = []

    async def charges(hand: Hand) -> None:
        writes, parts = hand.job.payload
        try:
            await STEPS[writes](
                hand, lambda: hand.subject.records.steal(hand.job.id, *PARTS[parts])
            )
        except duly.errors.LeaseLost as problem:
            refused.append(str(problem))
            raise

    async with leased.open(place) as subject:
        subject.job(charges)
        ids = {
            (writes, parts): await subject.enqueue(payload=[writes, parts])
            for writes in STEPS
            for parts in PARTS
        }
        worked = await subject.work()
        assert (worked.lost, worked.done, worked.dead) == (len(ids), 0, 0)
        for (writes, parts), id in ids.items():
            assert any(id in message for message in refused), (writes, parts)
            assert effects(subject, id) == WRITES[writes], (writes, parts)
            assert subject.records.present(id).state == "leased"


def effects(subject: Subject, id: str) -> list[str]:
    """The states of a job's effects."""
    found = subject.records.rows(f"SELECT state FROM duly_effects WHERE job = '{id}'")
    return [state for (state,) in found]


@pytest.mark.parametrize(
    "cancelled", [case for case in OPEN if case.colour == "async"], ids=lambda case: case.name
)
async def test_a_handler_that_is_awaited_is_cancelled_when_its_lease_is_lost(
    cancelled: Case, place: DatabaseOf
) -> None:
    ends: list[str] = []

    async def sleeps(hand: Hand) -> None:
        hand.subject.records.steal(hand.job.id)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise
        ends.append("slept on")

    async with cancelled.open(place) as subject:
        subject.job(sleeps)
        id = await subject.enqueue()
        async with asyncio.timeout(30):
            worked = await subject.work(lease=SHORT)
        assert (worked.lost, ends) == (1, ["cancelled"])
        assert subject.records.present(id)[:4] == ("leased", 0, 0, 2)


@pytest.mark.parametrize(
    "case", cases(["sqlite", "postgres"], ["async"], ["leased"]), ids=lambda case: case.name
)
async def test_a_worker_whose_last_heartbeat_is_older_than_its_lease_begins_nothing(
    case: Case, place: DatabaseOf
) -> None:
    """What it has leased may be another's by now: the next heartbeat tells."""
    ran: list[str] = []

    async def work(hand: Hand) -> None:
        ran.append(hand.job.id)

    async with case.open(place) as subject:
        subject.job(work)
        id = await subject.enqueue()
        worker = subject.app.process.worker(WorkerSettings(lease=LONG))
        heart, crew = worker._heartbeat, worker._executor
        try:
            await asyncio.to_thread(heart.announce)
            assert await worker._fetcher._fetch_batch(crew.slots.wants()) == 1
            heart._confirmed_at -= 2 * LONG.total_seconds()
            crew.start()
            assert not crew.is_busy()
            await asyncio.to_thread(heart.announce)
            crew.start()
            await seen(lambda: subject.records.states() == [])
        finally:
            await crew.close(0)
            await asyncio.to_thread(heart.stop)
        assert ran == [id]
