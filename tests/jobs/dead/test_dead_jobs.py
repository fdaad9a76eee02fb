"""A dead letter tells why it died, is found by what it was about, and is discarded for good."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.core.onestep import finish
from duly.jobs.dead import discard_dead
from tests.jobs.dead.dying import (
    AT_ONCE,
    EVERY_STORE,
    NOT_THERE,
    SECOND,
    SECRET,
    fail,
    killed,
    letters,
    received,
    replay,
    with_source,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.jobs.enqueue.desks import Desk


@EVERY_STORE
def test_a_dead_letter_tells_all_that_is_known_of_its_job(desk: Desk) -> None:
    assert desk.clock is not None
    begun = desk.clock.moment
    desk.job(fail, attempts=2, backoff=AT_ONCE)
    job = desk.enqueue({"order": 7}).id
    desk.work()
    [letter] = letters(desk, name=desk.name)
    assert (letter.id, letter.name, letter.queue) == (job, desk.name, desk.name)
    assert (letter.source, letter.event_id, letter.type) == (None, None, None)
    assert letter.payload == {"order": 7}
    assert (letter.attempts, letter.max_attempts, letter.rescues) == (2, 2, 0)
    assert (letter.created_at, letter.dead_at) == (begun, begun)
    assert letter.failure is not None
    assert (letter.failure.type, letter.failure.message) == ("ValueError", "no {'order': 7}")
    assert letter.failure.attempt == 2
    assert "in fail\n" in (letter.failure.traceback or "")
    assert letter.unknown == ()
    assert "order" not in repr(letter).replace(repr(letter.failure), "")
    assert pickle.loads(pickle.dumps(letter)) == letter
    assert letters(desk, job.upper()) == [letter]


@EVERY_STORE
def test_the_dead_letter_of_an_event_names_its_source_its_id_and_its_type(desk: Desk) -> None:
    async def fail_awaited(job: Any) -> None:
        fail(job)

    body = fail_awaited if desk.colour == "async" else fail
    source = with_source(desk, body, attempts=1)
    received(desk, "evt_1", "issues", source)
    received(desk, "evt_2", "push", source)
    desk.work()
    found = {letter.event_id: letter for letter in letters(desk, source=source)}
    assert found.keys() == {"evt_1", "evt_2"}
    letter = found["evt_1"]
    assert (letter.source, letter.type, letter.payload) == (source, "issues", None)
    assert letters(desk, source=source, type="push") == [found["evt_2"]]
    assert letters(desk, source=source, type="pus") == []
    assert replay(desk, source=source, type="push").ids == (found["evt_2"].id,)
    assert letters(desk, source=source) == [letter]


@EVERY_STORE
def test_dead_letters_are_listed_newest_first_and_by_filter(desk: Desk) -> None:
    first, second, third = killed(desk, [1, 2, 3])

    def ids(**filters: object) -> list[str]:
        return [letter.id for letter in letters(desk, **{"name": desk.name} | filters)]

    assert ids() == [third, second, first]
    assert ids(limit=2) == [third, second]
    middle = letters(desk, second)[0].dead_at
    assert ids(since=middle) == [third, second]
    assert ids(until=middle) == [first]
    assert ids(since=middle, until=middle + SECOND) == [second]
    assert ids(name=f"{desk.name}x") == []
    assert ids(source="nobody") == []
    assert letters(desk, NOT_THERE) == []


@EVERY_STORE
def test_a_discarded_job_is_gone_and_the_history_says_so_once(desk: Desk) -> None:
    job, other = killed(desk, [1, 2])
    together = threading.Barrier(4)

    def press(_: int) -> bool:
        with closing(desk.app.store.apart()) as store:  # as in a process of its own
            store.open()
            together.wait()
            return finish(discard_dead(store.sync_runner, job))

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(press, range(4))) == [False, False, False, True]
    assert desk.call(desk.verbs.jobs.discard, other)
    assert not desk.call(desk.verbs.jobs.discard, other)
    assert (letters(desk, name=desk.name), desk.jobs()) == ([], [])
    assert replay(desk, job).ids == ()
    history = desk.rows("SELECT job, outcome, attempts FROM duly_history WHERE name = '{name}'")
    assert sorted((str(one), *rest) for one, *rest in history) == sorted(
        [(job, "discarded", 1), (other, "discarded", 1)]
    )


@EVERY_STORE
def test_a_job_at_work_or_ready_is_neither_replayed_nor_discarded(desk: Desk) -> None:
    seen: list[object] = []

    def body(job: Any) -> Any:
        if desk.colour == "sync":
            seen.extend([desk.app.jobs.replay(job.id).ids, desk.app.jobs.discard(job.id)])
            return None
        return awaited(job)

    async def awaited(job: Any) -> None:
        aio = desk.app.aio.jobs
        seen.extend([(await aio.replay(job.id)).ids, await aio.discard(job.id)])

    desk.job(body)
    job = desk.enqueue().id
    assert replay(desk, job).ids == ()
    assert not desk.call(desk.verbs.jobs.discard, job)
    assert desk.work().done == 1
    assert seen == [(), False]
    assert desk.outcomes() == ["done"]


@EVERY_STORE
def test_inside_an_open_transaction_of_a_handler_nothing_is_decided(desk: Desk) -> None:
    app, [job] = desk.app, killed(desk, [1])
    source = f"s{desk.name[4:16]}"
    app.source(source, provider="github", secret=SECRET)
    received(desk, "evt_1", "push", source)
    told: list[str] = []

    def blocking(job: Any, tx: Any) -> None:
        for decide in decisions(app):
            with pytest.raises(duly.errors.UsageError) as refused:
                decide()
            told.append(str(refused.value))

    async def awaited(job: Any, tx: Any) -> None:
        for decide in decisions(app.aio):
            with pytest.raises(duly.errors.UsageError) as refused:
                await decide()
            told.append(str(refused.value))

    def decisions(verbs: Any) -> list[Callable[[], Any]]:
        return [
            lambda: verbs.jobs.replay(job),
            lambda: verbs.jobs.discard(job),
            lambda: verbs.jobs.resolve(job, "charge", done=True),
            lambda: verbs.forget(source, "evt_1"),
        ]

    handler: Any = awaited if desk.colour == "async" else blocking
    app.job(name=f"{desk.name}-tx", queue=desk.name)(handler)
    desk.call(desk.verbs.enqueue, f"{desk.name}-tx")
    assert desk.work().done == 1
    assert len(told) == 4
    assert all("call it outside of the handler" in one for one in told)
    assert desk.jobs() == [(job, "dead")]
    assert desk.call(desk.verbs.forget, source, "evt_1").event_id == "evt_1"  # it was still known
