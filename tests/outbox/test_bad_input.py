"""Whatever a verb about messages is given where it does not belong is refused, unwritten."""

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest

import duly
from duly.app.admin import AsyncOutboxAdmin, OutboxAdmin
from tests.support.bad_outbox_values import (
    BAD_IN_A_GUARD,
    BAD_IN_A_LETTER,
    BAD_IN_A_MESSAGE,
    BAD_IN_A_RELAY,
    BAD_IN_A_SIGNER,
    BAD_IN_A_TRANSPORT,
)
from tests.support.bad_values import CANARY, ODDITIES
from tests.support.inboxes import found
from tests.support.refusals import refused
from tests.support.servers import database

TABLES = (
    "claims", "versions", "events", "deliveries", "jobs", "history", "effects", "schedules",
    "workers", "counters", "meta", "outbox",
)  # fmt: skip
SECRET = "whsec_" + "A" * 32
URL = "https://example.com/hook"
# How a message is staged when all is well; the walk spoils one argument at a time.
MESSAGE: dict[str, object] = {"url": URL, "json": {"order": 7}}
# What another argument needs beside it, or cannot have.
MESSAGE_WITH: dict[str, dict[str, object]] = {
    "data": {"url": URL},
    "window": MESSAGE | {"key": "paid-7"},
}
LETTERS: dict[str, dict[str, object]] = {
    "dead": {},
    "replay": {"destination": "mail"},
    "find": {},
    "discard": {},
}
FUNCTIONS: list[object] = [None, 0, True, CANARY, *ODDITIES]


def mail(message: Any) -> None:
    """A transport that never sends."""
    raise duly.Dead("no such address")


def another_mail(message: Any) -> None:
    """Another function under a name that is taken."""


def billing(message: Any) -> dict[str, str]:
    """A signer of the user's own; never asked here."""
    pytest.fail("it was asked")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def app(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[duly.Duly]:
    """An application with a transport, a signer and a dead message, in a database of its own."""
    if request.param == "sqlite":
        yield from an_app(f"sqlite:///{tmp_path_factory.mktemp('bad') / 'duly.db'}")
        return
    server = request.getfixturevalue("postgres_server")
    with database(server, request.getfixturevalue("postgres_template")) as url:
        yield from an_app(url)


def an_app(url: str) -> Iterator[duly.Duly]:
    made = duly.Duly(url)
    made.transport("mail")(mail)
    made.signer("ours", secret=SECRET)
    made.send("mail:ann@example.com", json={"order": 7}, key="welcome-7")
    assert made.relay().dead == 1
    yield made
    made.close()


def everything(app: duly.Duly) -> list[Any]:
    """All that is in the database and known to the application."""
    rows = [found(app.store, f"SELECT * FROM duly_{table} ORDER BY 1, 2") for table in TABLES]
    outgoing = app.registries.outbox
    return [rows, dict(outgoing.transports), dict(outgoing.signers), outgoing.egress]


def spoiled(
    bad: Mapping[str, list[object]],
    good: dict[str, object],
    instead: Mapping[str, dict[str, object]] | None = None,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every call with one argument gone bad, and which one it is."""
    for parameter, values in bad.items():
        for value in values:
            yield parameter, (instead or {}).get(parameter, good) | {parameter: value}


def messages() -> Iterator[tuple[str, dict[str, Any]]]:
    return spoiled(BAD_IN_A_MESSAGE, MESSAGE, MESSAGE_WITH)


def letters(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The same for a verb about dead messages; an id and all=True stand alone."""
    parameters = inspect.signature(getattr(OutboxAdmin, name)).parameters
    bad = {one: values for one, values in BAD_IN_A_LETTER.items() if one in parameters}
    return spoiled(bad, LETTERS[name], {"message_id": {}, "all": {}})


def ready(app: duly.Duly) -> set[str]:
    """The messages that can be sent."""
    rows = found(app.store, "SELECT id FROM duly_outbox WHERE state = 'ready'")
    return {str(id) for (id,) in rows}


def run_in(loop: asyncio.Runner, verb: Callable[..., Any], arguments: dict[str, object]) -> object:
    """Call an awaited verb from code that blocks."""
    return loop.run(verb(**arguments))


def test_a_message_that_could_not_be_sent_is_not_staged(app: duly.Duly) -> None:
    before = everything(app)
    for parameter, arguments in messages():
        refused("send", parameter, partial(app.send, **arguments))
    assert everything(app) == before


def test_an_awaited_one_is_not_staged_either(app: duly.Duly) -> None:
    before = everything(app)
    with asyncio.Runner() as loop:
        for parameter, arguments in messages():
            refused("aio.send", parameter, partial(run_in, loop, app.aio.send, arguments))
        loop.run(app.store.aclose())
    assert everything(app) == before


def test_a_transaction_refuses_the_same_and_lives_on(app: duly.Duly) -> None:
    with app.transaction() as tx:
        for parameter, arguments in messages():
            if parameter != "tx":
                refused("tx.send", parameter, partial(tx.send, **arguments))
        staged = tx.send(URL, json=1)
    assert staged.id in ready(app)


async def test_an_awaited_transaction_refuses_the_same_and_lives_on(app: duly.Duly) -> None:
    async with app.aio.transaction() as tx:
        for parameter, arguments in messages():
            if parameter != "tx":
                refused("tx.send", parameter, partial(tx.send, **arguments))
        staged = await tx.send(URL, json=1)
    await app.aclose()
    assert staged.id in ready(app)


@pytest.mark.parametrize("name", LETTERS)
def test_a_verb_about_dead_messages_refuses_what_it_cannot_use(name: str, app: duly.Duly) -> None:
    before = everything(app)
    for parameter, arguments in letters(name):
        refused(f"outbox.{name}", parameter, partial(getattr(app.outbox, name), **arguments))
    with asyncio.Runner() as loop:
        verb = getattr(app.aio.outbox, name)
        for parameter, arguments in letters(name):
            refused(f"aio.outbox.{name}", parameter, partial(run_in, loop, verb, arguments))
        loop.run(app.store.aclose())
    assert everything(app) == before


def test_one_dead_message_must_be_named_and_which_others_must_be_said(app: duly.Duly) -> None:
    before = everything(app)
    [letter] = app.outbox.dead()
    for one in (app.outbox.find, app.outbox.discard):
        refused("letters", "message_id", partial(one, None))  # type: ignore[arg-type]
    refused("replay", "all", app.outbox.replay)
    for verb in (app.outbox.dead, app.outbox.replay):
        refused("letters", "destination", partial(verb, letter.id, destination="mail"))
    refused("replay", "all", partial(app.outbox.replay, letter.id, all=True))
    assert everything(app) == before


def test_a_relay_that_could_not_work_does_not_begin(app: duly.Duly) -> None:
    app.send("mail:bob@example.com", json=1)
    before = everything(app)
    for parameter, arguments in spoiled(BAD_IN_A_RELAY, {}):
        refused("relay", parameter, partial(app.relay, **arguments))
    with asyncio.Runner() as loop:
        for parameter, arguments in spoiled(BAD_IN_A_RELAY, {}):
            refused("aio.relay", parameter, partial(run_in, loop, app.aio.relay, arguments))
        loop.run(app.store.aclose())
    assert everything(app) == before


def transported(app: duly.Duly, function: object, options: dict[str, Any]) -> object:
    """Register a transport."""
    register: Any = app.transport(**options)
    return register(function)


def test_a_transport_that_could_not_work_is_not_added() -> None:
    def with_more(message: Any, order: int) -> None: ...
    def with_key_only(key: str) -> None: ...
    def generating(message: Any) -> Iterator[None]:
        yield

    app = duly.Duly("memory:")
    for parameter, options in spoiled(BAD_IN_A_TRANSPORT, {"name": "mail"}):
        refused("transport", parameter, partial(transported, app, mail, options))
    for function in (*FUNCTIONS, with_more, with_key_only, generating, Generating(), int):
        refused("transport", "function", partial(transported, app, function, {"name": "mail"}))
    assert app.registries.outbox.transports == {}
    app.transport("mail")(mail)
    refused("transport", "name", partial(transported, app, another_mail, {"name": "mail"}))
    assert app.transport("mail")(mail) is mail  # again, as after a reload
    app.close()


class Generating:
    """A callable that is a generator, and would never run."""

    def __call__(self, message: Any) -> Iterator[None]:
        yield


class Awaiting:
    """A callable that must be awaited."""

    async def __call__(self, message: Any) -> dict[str, str]:
        return {}


def signed_with(app: duly.Duly, function: object, options: dict[str, Any]) -> object:
    """Register a signer."""
    register = app.signer(**options)
    return register(function)


def test_a_signer_that_could_not_sign_is_not_added() -> None:
    async def awaited(message: Any) -> dict[str, str]:
        return {}

    def without() -> dict[str, str]:
        return {}

    def generating(message: Any) -> Iterator[str]:
        yield "Authorization"

    app = duly.Duly("memory:")
    for parameter, options in spoiled(BAD_IN_A_SIGNER, {"name": "ours", "secret": SECRET}):
        refused("signer", parameter, partial(app.signer, **options))
    for function in (*FUNCTIONS, awaited, without, generating, Generating(), Awaiting()):
        refused("signer", "function", partial(signed_with, app, function, {"name": "ours"}))
    assert app.registries.outbox.signers == {}
    app.signer("ours", secret=SECRET)
    refused("signer", "name", partial(app.signer, "ours", secret=SECRET))
    refused("signer", "name", partial(signed_with, app, billing, {"name": "ours"}))
    app.close()


def test_a_guard_that_could_not_guard_is_not_made() -> None:
    for parameter, options in spoiled(BAD_IN_A_GUARD, {}):
        refused("Egress", parameter, partial(duly.Egress, **options))


def test_every_verb_is_in_this_walk_and_every_parameter_has_bad_values() -> None:
    for function, values in (
        (duly.Duly.send, BAD_IN_A_MESSAGE),
        (duly.Duly.transport, BAD_IN_A_TRANSPORT),
        (duly.Duly.signer, BAD_IN_A_SIGNER),
        (duly.Duly.relay, BAD_IN_A_RELAY),
        (duly.Egress, BAD_IN_A_GUARD),
    ):
        assert inspect.signature(function).parameters.keys() - {"self"} == values.keys()
    for outbox in (OutboxAdmin, AsyncOutboxAdmin):
        verbs = {name for name in vars(outbox) if not name.startswith("_")}
        assert verbs == {*LETTERS, "stats"}  # which takes nothing
        for name in LETTERS:
            parameters = inspect.signature(getattr(outbox, name)).parameters.keys()
            assert parameters - {"self"} <= BAD_IN_A_LETTER.keys()
