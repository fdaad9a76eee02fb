"""What nobody knows stays so until somebody does, and what is known is written down."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.app.process import SPARE
from duly.jobs.effects import TRIES
from duly.jobs.job import AsyncJob, Job
from duly.worker.settings import WorkerSettings
from tests.jobs.effects.benches import Bench, raising
from tests.jobs.enqueue.desks import CASES, Case
from tests.support.processes.leading import PATIENCE
from tests.worker.subjects import seen

if TYPE_CHECKING:
    from collections.abc import Callable

everywhere = pytest.mark.parametrize("case", CASES, ids=str)
UNKNOWN = [("charge", "unknown", None)]


class NotSent(ConnectionError):
    """The outside world certainly did not see it."""


@everywhere
def test_a_later_call_that_certainly_did_not_happen_says_nothing_of_an_earlier_one(
    case: Case, bench: Bench
) -> None:
    with pytest.raises(TimeoutError):
        bench.effect(raising(TimeoutError("no answer")), not_done=(NotSent,))
    assert bench.states() == UNKNOWN
    bench.take_over()

    with pytest.raises(NotSent):
        bench.effect(raising(NotSent()), not_done=(NotSent,))

    assert bench.states() == UNKNOWN
    bench.take_over()
    with pytest.raises(duly.Dead, match="it is unknown whether effect 'charge'"):
        bench.effect(lambda: pytest.fail("a third call"), unknown="park")


@everywhere
def test_once_a_check_said_no_a_call_that_was_not_sent_leaves_nothing_open(
    case: Case, bench: Bench
) -> None:
    with pytest.raises(TimeoutError):
        bench.effect(raising(TimeoutError("no answer")))
    bench.take_over()

    with pytest.raises(NotSent):
        bench.effect(raising(NotSent()), unknown=lambda _: None, not_done=(NotSent,))

    assert bench.states() == []


class Unsteady:
    """A store that is away for so many writes once the call was made."""

    def __init__(self, runner: Any, away: int) -> None:
        self._runner = runner
        self.away = away
        self.called = False

    async def run(self, operation: Any, **options: Any) -> Any:
        """As the store, where it is there."""
        if self.called and self.away:
            self.away -= 1
            raise duly.errors.StoreUnavailable("nobody answers")
        return await self._runner.run(operation, **options)


def unsteadily(bench: Bench, away: int) -> tuple[Any, Callable[[], str]]:
    """The job over a store that is away after the call, and the answer to the call."""
    store = bench.desk.app.store
    runner: Any = Unsteady(
        store.async_runner if bench.desk.colour == "async" else store.sync_runner, away
    )
    kind: Any = AsyncJob if bench.desk.colour == "async" else Job

    def answer() -> str:
        runner.called = True
        return "charged"

    return kind(bench.leased, bench.desk.name, None, runner), answer


@everywhere
def test_the_outcome_of_a_step_that_was_taken_is_insisted_on(case: Case, bench: Bench) -> None:
    job, answer = unsteadily(bench, TRIES - 1)

    assert bench.effect(answer, job=job) == "charged"

    assert bench.states() == [("charge", "done", b'"charged"')]
    assert len(bench.calls) == 1


@everywhere
def test_an_outcome_that_cannot_be_written_at_all_is_open_and_not_done(
    case: Case, bench: Bench
) -> None:
    job, answer = unsteadily(bench, TRIES)

    with pytest.raises(duly.errors.StoreUnavailable):
        bench.effect(answer, job=job)

    assert bench.states() == [("charge", "intended", None)]


async def test_steps_find_a_connection_while_transactions_have_all_that_they_may(
    postgres_url: str, scope: str
) -> None:
    connections = SPARE + 1
    app = duly.Duly(postgres_url, connections=connections)
    gate, begun = threading.Event(), threading.Semaphore(0)
    charged: list[bool] = []
    queues = {f"{scope}-long": connections, f"{scope}-charges": 1}
    long, charges = queues

    @app.job(name=long, queue=long)
    def hold(job: duly.Job, tx: duly.Tx) -> None:
        tx.execute("SELECT 1")
        begun.release()
        assert gate.wait(PATIENCE)

    @app.job(name=charges, queue=charges)
    def charge(job: duly.Job) -> None:
        charged.append(job.effect("charge", lambda key: key) == job.key("charge"))

    await app.aio.enqueue_many(hold, [None] * connections)
    worker = app.process.worker(WorkerSettings(queues=queues, grace=timedelta(0)))
    running = asyncio.ensure_future(worker.run("stopped"))
    try:
        assert await asyncio.to_thread(begun.acquire, timeout=PATIENCE)
        await app.aio.enqueue(charge)
        await seen(lambda: bool(charged))
    finally:
        gate.set()
        worker.stop()
        await running
        await app.aclose()
        await asyncio.to_thread(app.close)
    assert charged == [True]
