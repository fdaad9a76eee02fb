"""Whatever a verb about jobs is given where it does not belong is refused; nothing is written."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import duly
from duly.jobs.job import AsyncJob, Job
from duly.stores.join.drivers import Mode
from tests.jobs.enqueue.desks import Desk
from tests.support.bad_job_values import BAD_IN_A_HANDLER, BAD_IN_A_JOB
from tests.support.bad_values import CANARY, ODDITIES
from tests.support.inboxes import found
from tests.support.refusals import refused

TABLES = ("claims", "versions", "jobs", "history", "effects", "workers", "schedules")
# How each verb is called when all is well; the walk spoils one argument at a time.
CALLS: dict[str, dict[str, object]] = {
    "enqueue": {"job": "send", "payload": {"order": 1}},
    "enqueue_many": {"job": "send", "payloads": [1, 2]},
    "work": {},
}
COLOURS: tuple[Mode, ...] = ("sync", "async")
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
    return [rows, dict(app.registries.jobs.plain)]


def spoiled(verb: Callable[..., Any], good: dict[str, object]) -> Iterator[tuple[str, Any]]:
    """Every call of a verb with one argument gone bad, and which one it is."""
    for parameter in inspect.signature(verb).parameters:
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
            refused(f"aio.{name}", parameter, partial(run_in, loop, verb, arguments))
        loop.run(app.store.aclose())
    assert everything(app) == before


def run_in(loop: asyncio.Runner, verb: Callable[..., Any], arguments: dict[str, object]) -> object:
    """Call an awaited verb from code that blocks."""
    return loop.run(verb(**arguments))


def test_a_transaction_refuses_the_same_and_lives_on(app: duly.Duly) -> None:
    with app.transaction() as tx:
        for name in ("enqueue", "enqueue_many"):
            for parameter, arguments in spoiled(getattr(app, name), CALLS[name]):
                if parameter != "tx":
                    refused(f"tx.{name}", parameter, partial(getattr(tx, name), **arguments))
        assert tx.enqueue("send").first
    assert len(found(app.store, "SELECT 1 FROM duly_jobs")) == 1


@pytest.mark.parametrize("parameter", sorted(BAD_IN_A_HANDLER))
def test_a_job_that_could_not_work_is_not_added(parameter: str) -> None:
    app = duly.Duly("memory:")
    for value in BAD_IN_A_HANDLER[parameter]:
        given: dict[str, Any] = {"name": "send"} | {parameter: value}
        refused("job", parameter, partial(registered, app, send, given))
        assert app.registries.jobs.plain == {}
    app.close()


def test_a_function_that_could_not_be_a_job_is_not_added() -> None:
    def with_event(event: duly.Event) -> None: ...
    def with_more(job: duly.Job, order: int) -> None: ...
    def generating(job: duly.Job) -> Iterator[None]:
        yield

    app = duly.Duly("memory:")
    for function in (*FUNCTIONS, with_event, with_more, generating):
        refused("job", "function", partial(registered, app, function, {"name": "send"}))
    refused("job", "name", lambda: app.job(lambda job: job))
    assert app.registries.jobs.plain == {}
    app.job(name="send")(send)
    refused("job", "name", partial(registered, app, charge_job, {"name": "send"}))
    assert app.job(name="send")(send) is send  # again, as after a reload
    app.close()


def registered(app: duly.Duly, function: object, options: dict[str, Any]) -> object:
    """Register a job."""
    register: Any = app.job(**options)
    return register(function)


def charge_job(job: duly.Job) -> None:
    """Another function under a name that is taken."""


@pytest.mark.parametrize("colour", COLOURS)
def test_an_effect_refuses_what_it_cannot_use_and_takes_no_step(
    colour: Mode, sqlite_url: str
) -> None:
    desk = Desk(sqlite_url, colour, None)
    desk.job(lambda _: None)
    desk.enqueue()
    kind, runner = (
        (Job, desk.app.store.sync_runner)
        if colour == "sync"
        else (AsyncJob, desk.app.store.async_runner)
    )
    job: Any = kind(desk.lease(), desk.name, None, runner)
    for parameter, arguments in spoiled(job.effect, {"name": "charge", "call": charge}):
        refused("effect", parameter, partial(desk.call, job.effect, **arguments))
    for value in BAD_IN_A_JOB["name"]:
        refused("key", "name", partial(job.key, value))
    assert desk.rows("SELECT 1 FROM duly_effects") == []
    desk.close()


def test_every_parameter_has_bad_values() -> None:
    assert inspect.signature(duly.Duly.transaction).parameters.keys() == {"self"}
    verbs = [getattr(duly.Duly, name) for name in CALLS]
    for verb in (*verbs, Job.effect, Job.key, AsyncJob.effect):
        assert inspect.signature(verb).parameters.keys() - {"self"} <= BAD_IN_A_JOB.keys()
    registering = inspect.signature(duly.Duly.job).parameters.keys() - {"self", "function"}
    assert registering <= BAD_IN_A_HANDLER.keys()
