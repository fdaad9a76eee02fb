"""Effects in handlers as a worker runs them: through errors, dead letters and killed processes."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.core.onestep import finish
from tests.jobs.enqueue.desks import CASES, Case, Desk
from tests.support.processes.forked import Forked
from tests.support.processes.leading import ROOT, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

everywhere = pytest.mark.parametrize("case", CASES, ids=str)
AT_ONCE = duly.Backoff(first=timedelta(0))


@pytest.fixture
def desk(case: Case, request: pytest.FixtureRequest) -> Iterator[Desk]:
    """An application whose job the test registers."""
    with case.open(request) as opened:
        yield opened


async def taken(job: Any, name: str, call: Callable[[str], Any], **options: Any) -> Any:
    """Take a step in either colour, from a handler that is written once as a coroutine."""
    if isinstance(job, duly.Job):
        return job.effect(name, call, **options)

    async def awaited(key: str) -> Any:
        return call(key)

    return await job.effect(name, awaited, **options)


def handled(desk: Desk, body: Callable[..., Any], **options: Any) -> None:
    """Register a coroutine function as the desk's job, in the desk's colour."""

    def blocking(job: Any) -> Any:
        return finish(body(job))

    desk.job(body if desk.colour == "async" else blocking, **options)


@everywhere
def test_a_retry_takes_only_the_steps_that_are_left(case: Case, desk: Desk) -> None:
    calls: list[tuple[int, str]] = []

    async def pay(job: Any) -> None:
        charged = await taken(job, "charge", lambda _: calls.append((job.attempt, "charge")))
        assert charged is None
        if job.attempt == 1:
            raise ConnectionError("the mail server is down")
        await taken(job, "mail", lambda _: calls.append((job.attempt, "mail")))

    handled(desk, pay, attempts=2, backoff=AT_ONCE)
    desk.enqueue()
    worked = desk.work()

    assert (worked.retried, worked.done) == (1, 1)
    assert calls == [(1, "charge"), (2, "mail")]


@everywhere
def test_an_unknown_step_that_is_to_be_parked_makes_a_dead_letter_before_its_attempts_are_used_up(
    case: Case, desk: Desk
) -> None:
    calls: list[str] = []

    def time_out(key: str) -> None:
        calls.append(key)
        raise TimeoutError

    async def pay(job: Any) -> None:
        await taken(job, "charge", time_out, unknown="park")

    handled(desk, pay, attempts=9, backoff=AT_ONCE)
    made = desk.enqueue()
    worked = desk.work()

    assert (worked.retried, worked.dead) == (1, 1)
    assert len(calls) == 1
    assert desk.jobs() == [(made.id, "dead")]
    assert "it is unknown whether effect 'charge' happened" in desk.error()


@everywhere
@pytest.mark.parametrize("done", [True, False])
def test_a_person_settles_an_unknown_step_and_the_replay_goes_by_that(
    case: Case, desk: Desk, done: bool
) -> None:
    calls: list[str] = []
    results: list[object] = []

    def time_out_once(key: str) -> str:
        calls.append(key)
        if len(calls) == 1:
            raise TimeoutError
        return "ch_2"

    async def pay(job: Any) -> None:
        results.append(await taken(job, "charge", time_out_once, unknown="park"))

    handled(desk, pay, attempts=2, backoff=AT_ONCE)
    made = desk.enqueue()
    desk.work()
    result = {"result": "ch_1"} if done else {}
    desk.call(desk.verbs.jobs.resolve, made.id, "charge", done=done, **result)
    desk.call(desk.verbs.jobs.replay, made.id)
    worked = desk.work()

    assert worked.done == 1
    assert results == (["ch_1"] if done else ["ch_2"])
    assert len(calls) == (1 if done else 2)
    assert len(set(calls)) == 1


@everywhere
def test_inside_an_open_tx_an_effect_is_refused_with_the_remedy(case: Case, desk: Desk) -> None:
    def blocking(job: Any, tx: duly.Tx) -> None:
        job.effect("charge", lambda _: pytest.fail("it was taken"))

    async def awaited(job: Any, tx: Any) -> None:
        await job.effect("charge", lambda _: pytest.fail("it was taken"))

    handler: Any = awaited if case.colour == "async" else blocking
    desk.app.job(name=desk.name, queue=desk.name)(handler)
    desk.enqueue()
    worked = desk.work()

    assert worked.dead == 1
    assert "duly.errors.UsageError" in desk.error()
    assert "tx.enqueue, or a handler without tx" in desk.error()
    assert desk.rows("SELECT 1 FROM duly_effects WHERE scope = 'job:{name}'") == []


@everywhere
def test_a_run_that_lost_its_lease_in_a_step_settles_nothing(case: Case, desk: Desk) -> None:
    after: list[str] = []

    async def pay(job: Any) -> None:
        await taken(job, "charge", lambda _: desk.change(STOLEN))
        after.append("went on")

    handled(desk, pay)
    made = desk.enqueue()
    worked = desk.work()

    assert (worked.lost, worked.done, worked.dead) == (1, 0, 0)
    assert after == []
    assert desk.jobs() == [(made.id, "leased")]
    assert desk.outcomes() == []


STOLEN = "UPDATE duly_jobs SET epoch = epoch + 1 WHERE name = '{name}'"


def test_a_call_of_the_wrong_colour_is_told_what_to_write(sqlite_url: str) -> None:
    app = duly.Duly(sqlite_url)

    async def charge(key: str) -> str:
        return key

    @app.job(name="pay")
    def pay(job: duly.Job) -> None:
        job.effect("charge", charge)  # type: ignore[type-var, unused-coroutine]

    app.enqueue("pay")
    assert app.work().dead == 1
    with app.transaction() as tx:
        [row] = tx.execute("SELECT last_error FROM duly_jobs")
    app.close()
    assert "write `def`" in bytes(row["last_error"]).decode()


def test_an_awaited_handler_may_call_what_blocks(sqlite_url: str) -> None:
    """Or it would be taken, and recorded as a step that nobody knows about."""
    app = duly.Duly(sqlite_url)
    results: list[object] = []

    @app.job(name="pay")
    async def pay(job: Any) -> None:
        results.append(await job.effect("charge", lambda _: "charged"))

    app.enqueue("pay")
    assert app.work().done == 1
    app.close()
    assert results == ["charged"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.kind != "memory" and case.colour == "sync"], ids=str
)
def test_a_worker_killed_in_a_step_leaves_it_unknown_and_the_next_one_uses_the_same_key(
    case: Case, desk: Desk
) -> None:
    keys: list[str] = []
    desk.job(lambda job: job.effect("charge", keys.append))
    desk.enqueue()
    command = [sys.executable, "-m", "tests.jobs.effects.charging", desk.app.store.url, desk.name]
    pipe = subprocess.PIPE
    with Forked(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        seen = process.stdout.readline().strip()
        process.kill()
    states = desk.rows("SELECT state FROM duly_effects WHERE scope = 'job:{name}'")

    rescued = until(lambda: worked if (worked := desk.work()).done else None)

    assert states == [("intended",)]
    assert rescued.done == 1
    assert keys == [seen]
    assert desk.rows("SELECT state FROM duly_effects WHERE scope = 'job:{name}'") == [("done",)]
