"""Whatever a verb about jobs is given where it does not belong is refused; nothing is written."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import duly
from duly._kernel.onestep import finish
from duly._kernel.options import WAIT
from duly.jobs.context import AsyncJob, Job
from duly.jobs.leases import Taking, Want, take
from tests.bad_values import BAD_IN_A_HANDLER, BAD_IN_A_JOB, CANARY, ODDITIES
from tests.inboxes import found
from tests.refusals import refused

TABLES = ("claims", "versions", "jobs", "history", "effects", "workers", "schedules")
# How each verb is called when all is well; the walk spoils one argument at a time.
CALLS: dict[str, dict[str, object]] = {
    "enqueue": {"job": "send", "payload": {"order": 1}},
    "enqueue_many": {"job": "send", "payloads": [1, 2]},
    "work": {},
}
FUNCTIONS: list[object] = [0, True, CANARY, *ODDITIES]


def send(job: duly.Job) -> None:
    """A job; never run here."""


def charge(key: str) -> str:
    """An external step; never taken here."""
    pytest.fail("it was taken")


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest) -> Iterator[duly.Duly]:
    """An application with one job, in a database of its own."""
    kind = "own_postgres_url" if request.param == "postgres" else "sqlite_url"
    made = duly.Duly(request.getfixturevalue(kind))
    made.store.open()
    made.job(name="send")(send)
    yield made
    made.close()


def everything(app: duly.Duly) -> list[Any]:
    """All that is in the database and known to the application."""
    rows = [found(app.store, f"SELECT * FROM duly_{table}") for table in TABLES]
    return [rows, dict(app.jobs.plain)]


def spoiled(verb: Callable[..., Any], good: dict[str, object]) -> Iterator[tuple[str, Any]]:
    """Every call of a verb with one argument gone bad, and which one it is."""
    for parameter in inspect.signature(verb).parameters.keys() - {"self"}:
        for value in BAD_IN_A_JOB[parameter]:
            yield parameter, good | {parameter: value}


@pytest.mark.parametrize("name", CALLS)
def test_every_verb_refuses_what_it_cannot_use_and_writes_nothing(
    name: str, app: duly.Duly
) -> None:
    verb = getattr(app, name)
    before = everything(app)
    for parameter, arguments in spoiled(verb, CALLS[name]):
        refused(name, parameter, partial(verb, **arguments))
    assert everything(app) == before


@pytest.mark.parametrize("name", CALLS)
def test_every_awaited_verb_refuses_it_too(name: str, app: duly.Duly) -> None:
    verb = getattr(app.aio, name)
    before = everything(app)
    with asyncio.Runner() as loop:
        for parameter, arguments in spoiled(verb, CALLS[name]):
            refused(f"aio.{name}", parameter, lambda given=arguments: loop.run(verb(**given)))
        loop.run(app.store.aclose())
    assert everything(app) == before


def test_a_transaction_refuses_the_same_and_lives_on(app: duly.Duly) -> None:
    with app.transaction() as tx:
        for name in ("enqueue", "enqueue_many"):
            for parameter, arguments in spoiled(getattr(app, name), CALLS[name]):
                if parameter != "tx":
                    refused(f"tx.{name}", parameter, partial(getattr(tx, name), **arguments))
        assert tx.enqueue("send").first
    assert len(found(app.store, "SELECT 1 FROM duly_jobs")) == 1


@pytest.mark.parametrize("parameter", sorted(BAD_IN_A_HANDLER.keys() - {"order", "tie", "refetch"}))
def test_a_job_that_could_not_work_is_not_added(parameter: str) -> None:
    app = duly.Duly("memory:")
    for value in BAD_IN_A_HANDLER[parameter]:
        given: dict[str, Any] = {"name": "send"} | {parameter: value}
        refused("job", parameter, lambda given=given: app.job(**given)(send))
        assert app.jobs.plain == {}
    app.close()


def test_a_function_that_could_not_be_a_job_is_not_added() -> None:
    def with_event(event: duly.Event) -> None: ...
    def with_more(job: duly.Job, order: int) -> None: ...
    def generating(job: duly.Job) -> Iterator[None]:
        yield

    app = duly.Duly("memory:")
    job: Any = app.job
    for function in (*FUNCTIONS, with_event, with_more, generating):
        refused("job", "function", lambda given=function: job(name="send")(given))
    refused("job", "name", lambda: job(lambda job: job))
    assert app.jobs.plain == {}
    app.job(name="send")(send)
    refused("job", "name", lambda: job(name="send")(charge_job))
    assert app.job(name="send")(send) is send  # again, as after a reload
    app.close()


def charge_job(job: duly.Job) -> None:
    """Another function under a name that is taken."""


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_an_effect_refuses_what_it_cannot_use_and_takes_no_step(
    colour: str, sqlite_url: str
) -> None:
    app = duly.Duly(sqlite_url)
    app.job(name="send")(send)
    app.enqueue("send")
    asked = Taking("worker", 10**9, [Want("default", 1, 0, lone=False)], stage=True)
    [leased] = finish(app.store.blocking.run(lambda session: take(session, asked), wait=WAIT))
    kind: Any = Job if colour == "sync" else AsyncJob
    runner = app.store.blocking if colour == "sync" else app.store.awaited
    job = kind(leased, "send", None, runner)
    with asyncio.Runner() as loop:

        def take_step(arguments: dict[str, object]) -> object:
            returned = job.effect(**arguments)
            return loop.run(returned) if inspect.iscoroutine(returned) else returned

        for parameter, arguments in spoiled(kind.effect, {"name": "charge", "call": charge}):
            refused("effect", parameter, lambda given=arguments: take_step(given))
    for value in BAD_IN_A_JOB["name"]:
        refused("key", "name", partial(job.key, value))
    assert found(app.store, "SELECT 1 FROM duly_effects") == []
    app.close()


def test_every_parameter_has_bad_values() -> None:
    assert inspect.signature(duly.Duly.transaction).parameters.keys() == {"self"}
    verbs = [getattr(duly.Duly, name) for name in CALLS]
    for verb in (*verbs, Job.effect, Job.key, AsyncJob.effect):
        assert inspect.signature(verb).parameters.keys() - {"self"} <= BAD_IN_A_JOB.keys()
    registering = inspect.signature(duly.Duly.job).parameters.keys() - {"self", "function"}
    assert registering <= BAD_IN_A_HANDLER.keys()
