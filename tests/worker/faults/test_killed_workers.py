"""A worker that is killed leaves its jobs to others, and only those it had begun half-done."""

from collections.abc import Iterator

import pytest

from tests.support.processes import until
from tests.worker.faults.benches import Bench, hear
from tests.worker.faults.storms import Storm

pytestmark = pytest.mark.slow

SLOTS = 10
QUICK = 8 * SLOTS
BATCH = 5


@pytest.fixture
def bench(url: str) -> Iterator[Bench]:
    """A database with workers at their gates."""
    with Bench(url) as made:
        yield made


@pytest.mark.promise("I2", "I3")
@pytest.mark.parametrize("name", ["tx sync", "tx async"])
def test_killed_in_the_middle_of_its_transaction_a_job_has_left_nothing_and_runs_again(
    bench: Bench, name: str
) -> None:
    made = bench.app.enqueue(name)
    with bench.worker("closed") as worker:
        hear(worker, "at the gate")
        worker.kill()
    bench.bury(worker)
    assert bench.ledger.effects() == {}
    with bench.worker("open") as other:
        bench.done()
    assert bench.ledger.ask("SELECT name, worker FROM effects") == [(made.id, str(other.pid))]
    assert bench.ledger.ask("SELECT attempts FROM duly_history") == [(1,)], "it cost an attempt"


@pytest.mark.promise("I2", "I3")
@pytest.mark.parametrize("name", ["bulk sync", "bulk async"])
def test_killed_in_the_middle_of_a_batch_each_of_its_jobs_runs_again_alone(
    bench: Bench, name: str
) -> None:
    wanted = {made.id for made in bench.app.enqueue_many(name, [None] * BATCH)}
    with bench.worker("closed") as worker:
        hear(worker, "at the gate")
        worker.kill()
    bench.bury(worker)
    assert bench.ledger.effects() == {}
    with bench.worker("open") as other:
        bench.done(BATCH)
    alone = f"{other.pid} of 1"
    assert bench.ledger.ask("SELECT name, worker FROM effects ORDER BY 1") == [
        (id, alone) for id in sorted(wanted)
    ]
    assert bench.ledger.ask("SELECT DISTINCT attempts FROM duly_history") == [(1,)]


def test_one_attempt_jobs_that_a_killed_worker_held_still_run(bench: Bench) -> None:
    bench.app.enqueue_many("quick", [None] * QUICK)  # so that it holds jobs ahead of their time
    wanted = {made.id for made in bench.app.enqueue_many("plain", [None] * 2 * SLOTS)}
    with bench.worker("closed") as worker:
        for _ in range(SLOTS):
            hear(worker, "at the gate")
        until(lambda: len(bench.ledger.given()) > QUICK + SLOTS or None)
        worker.kill()
    bench.bury(worker)
    with bench.worker("open"):
        bench.done(QUICK + 2 * SLOTS)
    effects = bench.ledger.effects()
    assert {effects[job] for job in wanted} == {1}


@pytest.mark.promise("I9")
def test_a_job_that_kills_its_process_ends_dead_and_its_neighbours_finish(url: str) -> None:
    with Storm(url, workers=1) as storm:
        storm.enqueue({"mail": SLOTS, "poison": 1, "ship": SLOTS})
        storm.run()
    assert storm.fallen == 5
