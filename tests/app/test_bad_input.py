"""Whatever an application is given where it does not belong is refused, and nothing is written."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import duly
from duly.app.aio import AsyncDuly
from tests.support.bad_job_values import BAD_IN_A_HANDLER, BAD_IN_A_SCHEDULE
from tests.support.bad_values import BAD_IN_A_CALL, BAD_IN_A_SOURCE, BAD_IN_AN_APP
from tests.support.inboxes import found
from tests.support.refusals import refused
from tests.webhooks.genuine import keys

SECRET = keys("github").receiver
BODY = b'{"action": "opened"}'
SIGNED = duly.sign("github", BODY, SECRET, id="evt_1", type="issues")
TABLES = (
    "claims", "versions", "events", "deliveries", "jobs", "history", "effects", "schedules",
    "workers", "counters", "meta", "outbox",
)  # fmt: skip
BAD = BAD_IN_A_HANDLER | BAD_IN_A_CALL
# How each method is called when all is well; the walk spoils one argument at a time.
CALLS: dict[str, dict[str, object]] = {
    "on": {"source": "github", "pattern": "*"},
    "forget": {"source": "github", "event_id": "evt_1", "tenant": "shop"},
    "receive": {"source": "github", "headers": SIGNED.headers, "body": BODY},
}
# Serving and closing take what a server hands over, which is no input of a person's.
SERVED = {"source", "wsgi", "close", "aclose", "store", "receiver"}
ABOUT_TESTS = {"bound_to"}  # tests/testing/test_bound_to.py
# Their own walks: below, tests/jobs/test_bad_input.py and tests/jobs/dead/test_bad_input.py.
ABOUT_JOBS = {
    "job", "enqueue", "enqueue_many", "transaction", "work", "jobs", "cron",
}  # fmt: skip
# And tests/outbox/test_bad_input.py.
ABOUT_MESSAGES = {"send", "transport", "signer", "outbox", "relay"}


def handle(event: duly.Event) -> None: ...


def whose(verified: duly.types.VerifiedDelivery) -> str:
    return "shop"


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest) -> Iterator[duly.Duly]:
    """An application with one event, in a database of its own."""
    kind = "own_postgres_url" if request.param == "postgres" else "sqlite_url"
    made = duly.Duly(request.getfixturevalue(kind))
    made.source("github", secret=SECRET, tenant=whose)
    made.on("github")(handle)
    assert made.receive("github", SIGNED.headers, BODY).status == 200
    made.receiver.metrics.flush_blocking()
    yield made
    made.close()


def everything(app: duly.Duly) -> list[Any]:
    """All that is in the database and known to the application."""
    rows = [found(app.store, f"SELECT * FROM duly_{table}") for table in TABLES]
    routes = {path: route.handlers.all() for path, route in app.router.routes.items()}
    return [rows, routes]


def made(arguments: dict[str, object]) -> duly.types.Store:
    """An application, and its store opened: an address is not looked at before."""
    app = duly.Duly(**arguments)  # type: ignore[arg-type]
    try:
        duly.dedup(app.store.open(), "shop", "a")  # a clock is not asked before
        return app.store
    finally:
        app.close()


@pytest.mark.parametrize("parameter", BAD_IN_AN_APP)
def test_an_application_that_could_not_work_is_not_made(parameter: str) -> None:
    for value in BAD_IN_AN_APP[parameter]:
        refused("Duly", parameter, partial(made, {"url": "memory:"} | {parameter: value}))


def test_an_application_without_a_database_is_told_to_name_one() -> None:
    refused("Duly", "url", lambda: duly.Duly(None))


@pytest.mark.parametrize("parameter", BAD_IN_A_SOURCE)
def test_a_source_that_could_not_work_is_not_added(parameter: str) -> None:
    app = duly.Duly("memory:")
    good: dict[str, object] = {"name": "shop", "provider": "github", "secret": SECRET}
    for value in BAD_IN_A_SOURCE[parameter]:
        call: Callable[..., None] = app.source
        refused("source", parameter, partial(call, **good | {parameter: value}))
        assert app.router.routes == {}
    app.close()


def report(job: duly.Job) -> None:
    """A job on a schedule; never run here."""


@pytest.mark.parametrize("parameter", sorted(BAD_IN_A_SCHEDULE))
def test_a_schedule_that_could_not_work_is_not_added(parameter: str) -> None:
    app = duly.Duly("memory:")

    def scheduled(expression: Any = "* * * * *", **options: Any) -> object:
        return app.cron(expression, **options)(report)

    for value in BAD_IN_A_SCHEDULE[parameter]:
        refused("cron", parameter, partial(scheduled, **{parameter: value}))
        assert (list(app.schedules), app.registries.jobs.plain) == ([], {})
    app.close()


def spoiled(name: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Every call of a method with one argument gone bad, and which one it is."""
    for parameter in inspect.signature(getattr(duly.Duly, name)).parameters:
        if parameter != "self":
            for value in BAD[parameter]:
                yield parameter, CALLS[name] | {parameter: value}


@pytest.mark.parametrize("name", CALLS)
def test_every_method_refuses_what_it_cannot_use_and_writes_nothing(
    name: str, app: duly.Duly
) -> None:
    def call(arguments: dict[str, object]) -> object:
        returned = getattr(app, name)(**arguments)
        return returned(handle) if name == "on" else returned

    before = everything(app)
    for parameter, arguments in spoiled(name):
        refused(name, parameter, partial(call, arguments))
    app.receiver.metrics.flush_blocking()
    assert everything(app) == before


@pytest.mark.parametrize("name", ["forget", "receive"])
def test_every_awaited_method_refuses_it_too(name: str, app: duly.Duly) -> None:
    def call(arguments: dict[str, object]) -> object:
        async def ask() -> object:
            try:
                return await getattr(app.aio, name)(**arguments)
            finally:
                await app.store.aclose()

        return asyncio.run(ask())

    before = everything(app)
    for parameter, arguments in spoiled(name):
        refused(f"aio.{name}", parameter, partial(call, arguments))
    assert everything(app) == before


def test_an_alias_that_is_no_name_is_refused() -> None:
    call: Callable[..., object] = duly.django.database
    for value in BAD_IN_A_CALL["alias"]:
        refused("database", "alias", partial(call, value))


def test_every_method_is_in_this_walk_and_every_parameter_has_bad_values() -> None:
    methods = {name for name in dir(duly.Duly) if not name.startswith("_")}
    assert methods == CALLS.keys() | SERVED | ABOUT_TESTS | ABOUT_JOBS | ABOUT_MESSAGES
    awaited = {name for name in dir(AsyncDuly) if not name.startswith("_")}
    assert awaited <= CALLS.keys() | ABOUT_JOBS | ABOUT_MESSAGES
    for function, values in (
        (duly.Duly, BAD_IN_AN_APP),
        (duly.Duly.source, BAD_IN_A_SOURCE),
        (duly.Duly.cron, BAD_IN_A_SCHEDULE),
        *((getattr(duly.Duly, name), BAD) for name in CALLS),
        (duly.django.database, BAD_IN_A_CALL),
    ):
        assert inspect.signature(function).parameters.keys() - {"self"} <= values.keys()


@pytest.mark.parametrize("source", ["github", "unknown"])
def test_a_tenant_where_there_is_none_and_none_where_there_is_one(
    source: str, app: duly.Duly
) -> None:
    app.source("plain", provider="github", secret=SECRET)
    refused("forget", "tenant", lambda: app.forget("plain", "evt_1", tenant="shop"))
    refused("forget", "tenant", lambda: app.forget(source, "evt_1"))
