"""Whatever is passed where it does not belong ends in an error of duly's that says what to do.

Nothing is written before it is raised, and no message repeats a secret, a body or a key in full.
"""

import inspect
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from functools import partial
from typing import Any

import aiosqlite
import psycopg
import pytest

import duly
from tests.support.bad_values import BAD, BAD_AT_THE_GATE
from tests.support.refusals import refused

MINUTE = timedelta(minutes=1)


def work() -> str:
    return "done"


async def awaited_work() -> str:
    return "done"


# How each public function is called when all is well; the walk spoils one argument at a time.
CALLS: dict[str, dict[str, object]] = {
    "dedup": {"target": None, "scope": "shop", "key": "a", "ttl": MINUTE},
    "dedup_many": {"target": None, "scope": "shop", "keys": ["a", "b"], "ttl": MINUTE},
    "once": {"target": None, "scope": "shop", "key": "a"},
    "fence": {"store": None, "scope": "shop", "key": "a", "work": work},
    "newer": {"target": None, "resource": "order-1", "version": 1},
    "prune": {"target": None},
    "migrate": {"target": None},
    "store": {"url": "memory:"},
}
NOW = 1767225600.0
SIGNED = duly.sign("hubspot", b"[]", "secret", now=NOW, url="https://example.com")
# The same for what needs no store. HubSpot signs everything that a request is made of.
CALLS_AT_THE_GATE: dict[str, dict[str, object]] = {
    "verify": {
        "source": "hubspot",
        "secrets": "secret",
        "now": NOW,
        **{"headers": SIGNED.headers, "body": SIGNED.body, "url": SIGNED.url},
    },
    "explain": {
        "source": "hubspot",
        "secrets": "secret",
        **{"headers": {}, "body": SIGNED.body, "url": SIGNED.url, "others": ()},
    },
    "sign": {"source": "hubspot", "secret": "secret", "body": b"[]", "url": SIGNED.url},
    "Source": {"provider": "hubspot", "secrets": "secret"},
    "Secret": {"value": "secret"},
}
# Where None means that nothing is given.
OPTIONAL_AT_THE_GATE = {"Source": {"url"}, "explain": {"url"}}


class Site:
    """A database with duly's tables, and the ways to point a verb at it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_sqlite = url.startswith("sqlite:")
        self.path = url.removeprefix("sqlite:///")
        self.store = duly.store(url).open()
        self.reader = self.connection(autocommit=True)

    def connection(self, *, autocommit: bool = False) -> Any:
        """A blocking connection; it begins its transactions by itself unless told otherwise."""
        if self.is_sqlite:
            return sqlite3.connect(self.path, isolation_level=None if autocommit else "DEFERRED")
        return psycopg.connect(self.url, autocommit=autocommit)

    async def awaited_connection(self) -> Any:
        """The same, awaited."""
        if self.is_sqlite:
            return await aiosqlite.connect(self.path)
        return await psycopg.AsyncConnection.connect(self.url)

    def rows(self) -> list[Any]:
        """Everything in duly's tables."""
        return [
            self.reader.execute(f"SELECT * FROM {table}").fetchall()
            for table in ("duly_claims", "duly_versions", "duly_meta")
        ]

    def close(self) -> None:
        self.reader.close()
        self.store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    kind = "own_postgres_url" if request.param == "postgres" else "sqlite_url"
    opened = Site(request.getfixturevalue(kind))
    yield opened
    opened.close()


def spoiled(name: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Every call of a verb with one argument gone bad, and which one it is."""
    verb = getattr(duly, name)
    for parameter in inspect.signature(verb).parameters:
        for value in BAD[parameter]:
            yield parameter, CALLS[name] | {parameter: value}


def pointed(arguments: dict[str, object], parameter: str, target: object) -> dict[str, object]:
    """The same call at a real target, unless the target is what is bad."""
    where = {each: target for each in ("target", "store") if each in arguments}
    return arguments | {each: to for each, to in where.items() if each != parameter}


def entered(verb: Callable[..., Any], call: dict[str, object]) -> object:
    """Call the verb; a ``once`` or a store that is never opened has not been asked anything yet."""
    returned = verb(**call)
    if isinstance(returned, duly.types.Store):
        return returned.open()
    return returned.__enter__() if hasattr(returned, "__enter__") else returned


@pytest.mark.parametrize("name", CALLS)
def test_every_verb_refuses_what_it_cannot_use_and_writes_nothing(name: str, site: Site) -> None:
    before = site.rows()
    verb = getattr(duly, name)
    for parameter, arguments in spoiled(name):
        with closing(site.connection()) as connection:
            for target in (site.store, connection):
                call = pointed(arguments, parameter, target)
                refused(name, parameter, partial(entered, verb, call))
            connection.commit()
    assert site.rows() == before


@pytest.mark.parametrize("name", [name for name in CALLS if name != "store"])
async def test_every_awaited_verb_refuses_it_too(name: str, site: Site) -> None:
    before = site.rows()
    verb = getattr(duly.aio, name)
    async with site.store:
        for parameter, arguments in spoiled(name):
            connection = await site.awaited_connection()
            try:
                for target in (site.store, connection):
                    call = pointed(arguments, parameter, target)
                    if "work" in call and parameter != "work":
                        call["work"] = awaited_work
                    await refused_awaited(name, parameter, verb, call)
                await connection.commit()
            finally:
                await connection.close()
    assert site.rows() == before


async def refused_awaited(
    name: str, parameter: str, verb: Callable[..., Any], call: dict[str, object]
) -> None:
    """The same, for what must be awaited or entered with ``async with``."""
    try:
        returned = verb(**call)
        await (returned if inspect.isawaitable(returned) else returned.__aenter__())
    except Exception as caught:
        problem = caught
        refused(name, parameter, lambda: raised(problem))
    else:
        pytest.fail(f"aio.{name} took a bad {parameter}")


def raised(problem: Exception) -> None:
    raise problem


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        (name, parameter)
        for name in CALLS_AT_THE_GATE
        for parameter in inspect.signature(getattr(duly, name)).parameters
    ],
)
def test_the_gate_refuses_what_it_cannot_use(name: str, parameter: str) -> None:
    call = getattr(duly, name)
    assert call(**CALLS_AT_THE_GATE[name])
    for value in BAD_AT_THE_GATE[parameter]:
        if parameter in OPTIONAL_AT_THE_GATE.get(name, ()) and value is None:
            continue
        arguments = CALLS_AT_THE_GATE[name] | {parameter: value}
        refused(name, parameter, partial(call, **arguments))


def test_every_public_function_is_in_this_walk_and_every_parameter_has_bad_values() -> None:
    functions = {name for name in duly.__all__ if inspect.isfunction(getattr(duly, name))}
    # What belongs to an application is in a walk of its own.
    # What belongs to a proof is in tests/prove.
    elsewhere = {"verify", "sign", "explain"}
    assert functions == CALLS.keys() | elsewhere
    for calls, values in ((CALLS, BAD), (CALLS_AT_THE_GATE, BAD_AT_THE_GATE)):
        for name in calls:
            assert inspect.signature(getattr(duly, name)).parameters.keys() <= values.keys()


def test_a_leased_turn_refuses_what_it_cannot_keep_and_lives_on(site: Site) -> None:
    with duly.once(site.store, "shop", "a", lease=MINUTE) as turn:
        mark: Callable[..., None] = turn.mark
        before = site.rows()
        for value in BAD["result"]:
            refused("mark", "result", partial(mark, value))
            refused("turn", "result", partial(setattr, turn, "result", value))
        for value in BAD["tx"]:
            refused("mark", "tx", partial(mark, tx=value))
        refused("turn", "truth", lambda: bool(turn))
        assert site.rows() == before
        turn.mark("kept")
    with duly.once(site.store, "shop", "a", lease=MINUTE) as turn:
        assert turn.result == "kept"
        for misuse in (turn.mark, turn.renew, lambda: turn.epoch, lambda: turn.mark("again")):
            refused("duplicate", "turn", misuse)
