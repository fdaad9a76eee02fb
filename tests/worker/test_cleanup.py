"""A worker leaves nothing behind: no thread when it ends, no wish to be woken when it is killed."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duly.core.defaults import WAIT
from duly.core.ids import new_id
from duly.core.onestep import finish
from duly.jobs.workers import WorkerIdentity, record_heartbeat, rescue, set_idle
from tests.jobs.enqueue.desks import CASES
from tests.support.processes.leading import until

if TYPE_CHECKING:
    from duly.core.session import Session
    from duly.jobs.job import AsyncJob
    from duly.jobs.tx import AsyncTx
    from tests.conftest import HandClock
    from tests.jobs.enqueue.desks import Case, Desk

LEASE = timedelta(seconds=30)


@pytest.mark.promise("I12")
@pytest.mark.parametrize("case", [case for case in CASES if case.colour == "sync"], ids=str)
def test_working_again_and_again_leaves_no_thread(
    case: Case, request: pytest.FixtureRequest
) -> None:
    with case.open(request) as desk:
        desk.job(lambda _: None)

        async def awaited(job: AsyncJob, tx: AsyncTx) -> None:
            await tx.execute("SELECT 1")

        desk.app.job(name=f"{desk.name}-awaited", queue=desk.name)(awaited)

        def work() -> None:
            desk.enqueue()
            desk.app.enqueue(f"{desk.name}-awaited")
            assert desk.work().done == 2

        work()
        before = threading.active_count()
        for _ in range(4):
            work()
        # Threads that are told to end may take a moment.
        until(lambda: True if threading.active_count() <= before else None)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_nobody_wakes_a_worker_that_was_killed_in_its_sleep(
    case: Case, request: pytest.FixtureRequest, clock: HandClock
) -> None:
    with case.open(request, clock) as desk:
        killed, living = asleep(desk), asleep(desk)
        clock.advance(LEASE / 2)
        look(desk)
        assert wanting(desk, killed, living) == [True, True]
        asleep(desk, living)
        clock.advance(LEASE / 2)
        look(desk)
        assert wanting(desk, killed, living) == [False, True]


def asleep(desk: Desk, worker: str | None = None) -> str:
    """A worker that was just seen, and asks to be woken."""
    identity = WorkerIdentity(
        worker or new_id(), "host", 1, "[]", int(LEASE.total_seconds() * 10**6)
    )

    async def sleep(session: Session) -> None:
        await record_heartbeat(session, identity)
        await set_idle(session, identity.id, wanted=True)

    finish(desk.app.store.sync_runner.run(sleep, wait=WAIT))
    return identity.id


def look(desk: Desk) -> None:
    """Somebody looks for lost leases, as every worker does."""
    finish(desk.app.store.sync_runner.run(lambda session: rescue(session, new_id()), wait=WAIT))


def wanting(desk: Desk, *workers: str) -> list[bool]:
    """Whether these are woken for each job that is enqueued."""
    rows = {str(id): bool(idle) for id, idle in desk.rows("SELECT id, idle FROM duly_workers")}
    return [rows[worker] for worker in workers]
