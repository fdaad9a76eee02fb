"""Each slot is enqueued once: by whichever worker comes first, and whole or not at all."""

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any

import duly
from duly.core.defaults import WAIT
from duly.core.onestep import finish
from duly.core.session import Row, Session, Value
from duly.jobs.schedule import Schedule, fire
from duly.jobs.statements import SCHEDULES_READ
from tests.conftest import HandClock
from tests.jobs.schedule.slots import HOUR, MINUTE, enqueued, fired, registry, scheduled
from tests.support.inboxes import done


async def test_workers_that_look_at_the_same_moment_enqueue_each_slot_once(
    url: str, clock: HandClock
) -> None:
    store, each = duly.store(url, clock=clock), scheduled("*/10 * * * *", "all")
    for _ in range(4):
        await asyncio.gather(
            *(store.async_runner.run(lambda one: fire(one, each, registry()), wait=WAIT)
              for _ in range(6))
        )  # fmt: skip
        clock.advance(HOUR)
    assert len(enqueued(store)) == len(set(enqueued(store))) == 18
    await store.aclose()


class Around:
    """A session that answers the first question as it was before, or breaks at a statement."""

    def __init__(self, session: Session, *, seen: Sequence[Row] = (), breaks: int = -1) -> None:
        self._session, self._seen, self._left = session, seen, breaks
        self.can_batch, self.new_work = session.can_batch, session.new_work

    async def rows(self, statement: str, **values: Value) -> Sequence[Row]:
        if self._left == 0:
            raise ConnectionAbortedError("here")
        self._left -= 1
        if statement == SCHEDULES_READ and self._seen:
            return self._seen
        return await self._session.rows(statement, **values)


def fired_around(store: duly.types.Store, schedule: Schedule, **how: Any) -> object:
    """What a worker does whose answers are late, or whose connection breaks."""

    async def tried(session: Session) -> object:
        return await fire(Around(session, **how), schedule, registry())  # type: ignore[arg-type]

    return finish(store.sync_runner.run(tried, wait=WAIT))


def rows_now(store: duly.types.Store) -> Sequence[Row]:
    async def asked(session: Session) -> Sequence[Row]:
        return await session.rows(SCHEDULES_READ)

    return finish(store.sync_runner.run_autocommit(asked, wait=WAIT))


def test_a_worker_that_looked_before_another_moved_on_enqueues_nothing(
    store: duly.types.Store, clock: HandClock
) -> None:
    minutely = scheduled("* * * * *", "all")
    clock.advance(MINUTE)
    unknown = rows_now(store)
    clock.advance(-MINUTE)
    assert fired(store, minutely) == []
    assert fired_around(store, minutely, seen=unknown) is None
    clock.advance(MINUTE)
    behind = rows_now(store)
    assert fired(store, minutely) == ["00:01"], "who comes second does not say when it begins"
    assert fired_around(store, minutely, seen=behind) is None
    assert enqueued(store) == ["2026-01-01T00:01:00+00:00"]


def test_a_worker_that_dies_at_any_statement_leaves_the_slots_to_the_next(
    store: duly.types.Store, clock: HandClock
) -> None:
    each = scheduled("*/30 * * * *", "all")
    fired(store, each)
    for statement in count():
        clock.advance(HOUR)
        before = rows_now(store)[0]["slot"], enqueued(store)
        try:
            fired_around(store, each, breaks=statement)
        except ConnectionAbortedError:
            assert (rows_now(store)[0]["slot"], enqueued(store)) == before
            assert len(fired(store, each)) == 2
        else:
            break
    assert statement == 6  # the look, the step, and two for each job
    assert len(set(enqueued(store))) == len(enqueued(store)) == 14


def test_a_slot_whose_schedule_was_lost_is_still_known(
    store: duly.types.Store, clock: HandClock
) -> None:
    hourly = scheduled("0 * * * *", "all")
    fired(store, hourly)
    clock.advance(HOUR)
    fired(store, hourly)
    done(store, "DELETE FROM duly_schedules")
    clock.advance(-HOUR)
    fired(store, hourly)
    clock.advance(2 * HOUR)
    assert fired(store, hourly) == ["01:00", "02:00"]
    assert len(enqueued(store)) == 2
