"""What is counted is what can be done with each job now, and who is there to do it."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from duly.core.ids import new_id
from tests.jobs.dead.dying import EVERY_STORE, SECOND, killed

if TYPE_CHECKING:
    from tests.conftest import HandClock
    from tests.jobs.enqueue.desks import Desk


@EVERY_STORE
def test_the_jobs_of_each_queue_are_counted_by_what_can_be_done_with_them(
    desk: Desk, clock: HandClock
) -> None:
    def stats() -> Any:
        return desk.call(desk.verbs.jobs.stats)

    assert desk.name not in stats().queues
    killed(desk, [1, 2])
    clock.advance(timedelta(hours=1))
    desk.enqueue(3, delay=timedelta(minutes=1))
    desk.enqueue(4)
    clock.advance(SECOND)
    desk.enqueue_many([5, 6])
    clock.advance(timedelta(seconds=2))
    desk.lease()  # the most urgent: the fourth
    desk.enqueue(7, delay=timedelta(days=1))
    desk.change(
        "UPDATE duly_jobs SET parked = TRUE WHERE name = '{name}' AND run_at = ("
        "SELECT max(run_at) FROM duly_jobs WHERE name = '{name}')"
    )
    found = stats().queues[desk.name]
    assert (found.ready, found.waiting, found.leased, found.dead) == (2, 2, 1, 2)
    assert (found.oldest, found.parked) == (timedelta(seconds=2), 1)
    clock.advance(timedelta(minutes=1))  # its time has come, whether a worker has seen it or not
    found = stats().queues[desk.name]
    assert (found.ready, found.waiting) == (3, 1)
    assert stats().ready >= 3
    assert stats().dead >= 2
    assert stats().oldest >= found.oldest == timedelta(seconds=62)


@EVERY_STORE
def test_a_worker_lives_while_it_is_seen_within_its_lease(desk: Desk, clock: HandClock) -> None:
    seen: list[Any] = []

    def body(job: Any) -> Any:
        if desk.colour == "sync":
            seen.append(desk.app.jobs.stats())
            return None
        return awaited()

    async def awaited() -> None:
        seen.append(await desk.app.aio.jobs.stats())

    desk.job(body)
    desk.enqueue()
    worker, queues = new_id(), json.dumps([desk.name])
    moment, no = (
        (f"'{clock.moment.isoformat()}'", "false")
        if desk.app.store.capabilities.concurrent_writers
        else (str(int(clock.moment.timestamp() * 1_000_000)), "0")
    )
    desk.change(
        "INSERT INTO duly_workers (id, host, pid, seen_at, queues, idle, lease) "
        f"VALUES ('{worker}', 'elsewhere', 7, {moment}, '{queues}', {no}, 1000000)"
    )

    def lives() -> bool:
        return worker in {one.id for one in desk.call(desk.verbs.jobs.stats).workers}

    assert lives()
    assert desk.work().done == 1
    [own] = [one for one in seen[0].workers if one.pid == os.getpid()]
    assert (own.queues, seen[0].queues[desk.name].leased) == ((desk.name,), 1)
    clock.advance(SECOND)
    assert not lives()
    desk.change(f"DELETE FROM duly_workers WHERE id = '{worker}'")
