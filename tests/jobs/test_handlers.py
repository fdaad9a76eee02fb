"""Handlers are found by type, asked for what they want by name, and refused where none can run."""

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

import duly
from duly.core.onestep import finish
from duly.jobs.handlers import Handler, Handlers, checked_pattern, handler_of
from duly.jobs.invoke import call_handler


def plain(event: object) -> None: ...


async def awaited(event: object, tx: object) -> None: ...


def nothing() -> None: ...


def all_of_them(event: object, job: object, tx: object) -> None: ...


def by_keyword(*, tx: object, event: object = None) -> None: ...


def with_defaults(event: object, retries: int = 3, *rest: object, **more: object) -> None: ...


class Shop:
    """Methods are handlers too."""

    def handle(self, event: object) -> None: ...

    async def later(self, event: object, job: object) -> None: ...

    @staticmethod
    def still(tx: object) -> None: ...

    @classmethod
    def classy(cls, event: object) -> None: ...


class Calling:
    """An object that is called."""

    def __call__(self, event: object) -> None: ...


class Awaiting:
    """An object whose call is awaited."""

    async def __call__(self, event: object, tx: object) -> None: ...


@dataclass
class Mailer:
    """An object that compares by value, and so has no hash."""

    sender: str

    def __call__(self, event: object) -> None: ...


SHOP = Shop()


@pytest.mark.parametrize(
    ("call", "wants"),
    [
        (plain, {"event"}),
        (awaited, {"event", "tx"}),
        (nothing, set()),
        (all_of_them, {"event", "job", "tx"}),
        (by_keyword, {"event", "tx"}),
        (with_defaults, {"event"}),
        (SHOP.handle, {"event"}),
        (SHOP.later, {"event", "job"}),
        (Shop.still, {"tx"}),
        (Shop.classy, {"event"}),
    ],
)
def test_a_handler_is_given_what_its_parameters_name_and_nothing_else(
    call: Callable[..., Any], wants: set[str]
) -> None:
    handler = handler_of(call, None)
    assert handler.wants == wants
    assert handler.name == call.__qualname__
    offered = {"event": 1, "job": 2, "tx": 3}
    given: dict[str, Any] = {}
    noted = replace(handler, call=lambda **values: given.update(values), mode="sync")
    finish(call_handler(noted, **offered))
    assert given == {name: offered[name] for name in wants}


@pytest.mark.parametrize(
    ("call", "wants", "colour"),
    [
        (Calling(), {"event"}, "sync"),
        (Awaiting(), {"event", "tx"}, "async"),
        (functools.partial(with_defaults, retries=5), {"event"}, "sync"),
        (functools.partial(all_of_them, job=None, tx=None), {"event", "job", "tx"}, "sync"),
        (functools.partial(awaited, tx=None), {"event", "tx"}, "async"),
        (functools.partial(functools.partial(awaited)), {"event", "tx"}, "async"),
        (functools.partial(SHOP.later), {"event", "job"}, "async"),
        (functools.partial(Awaiting()), {"event", "tx"}, "async"),
    ],
)
def test_callables_without_a_name_are_handlers_under_the_name_they_are_given(
    call: Callable[..., Any], wants: set[str], colour: str
) -> None:
    with pytest.raises(duly.errors.UsageError, match="give it name="):
        handler_of(call, None)
    handler = handler_of(call, "mail")
    assert (handler.name, set(handler.wants), str(handler.mode)) == ("mail", wants, colour)


@pytest.mark.parametrize(
    ("call", "colour"),
    [(plain, "sync"), (awaited, "async"), (SHOP.handle, "sync"), (SHOP.later, "async")],
)
def test_the_colour_of_a_handler_is_that_of_its_definition(
    call: Callable[..., Any], colour: str
) -> None:
    assert handler_of(call, None).mode == colour


def test_a_decorated_handler_is_asked_what_the_function_inside_wants() -> None:
    @functools.wraps(awaited)
    async def timed(*positional: Any, **named: Any) -> None: ...

    handler = handler_of(timed, None)
    assert (handler.name, handler.mode) == ("awaited", "async")
    assert handler.wants == {"event", "tx"}


def unknown(event: object, database: object) -> None: ...


def positional(event: object, /) -> None: ...


def unknown_keyword(*, evnt: object) -> None: ...


def generator(event: object) -> Iterator[None]:
    yield


async def async_generator(event: object) -> AsyncIterator[None]:
    yield


class Generating:
    """An object whose call never runs."""

    def __call__(self, event: object) -> Iterator[None]:
        yield


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (unknown, "asks for 'database': a handler's parameters are event, job and tx"),
        (unknown_keyword, "asks for 'evnt'"),
        (positional, "asks for 'event': .* by these names"),
        (generator, "is a generator and would never run"),
        (async_generator, "is a generator and would never run"),
        (Generating(), "is a generator and would never run"),
        (functools.partial(generator), "is a generator and would never run"),
        (None, "must be a function, not None"),
        ("plain", "must be a function, not a str"),
        (max, "the parameters of handler name cannot be told|event, job and tx"),
        (dict, "the parameters of handler name cannot be told|event, job and tx"),
    ],
)
def test_what_cannot_be_called_for_an_event_is_refused(call: object, message: str) -> None:
    with pytest.raises(duly.errors.UsageError, match=message):
        handler_of(call, "name")


def test_a_name_that_would_change_from_deploy_to_deploy_is_refused() -> None:
    def inner(event: object) -> None: ...

    for call in (inner, lambda event: event):
        with pytest.raises(duly.errors.UsageError, match=r"no lasting name .* or give it name="):
            handler_of(call, None)
        assert handler_of(call, "inner").name == "inner"


@pytest.mark.parametrize("name", ["", "x" * 201, "\u00e9" * 101, "a\nb", "a\0", "<x>", "\ud800"])
def test_a_name_that_no_table_or_page_can_show_is_refused(name: str) -> None:
    with pytest.raises(duly.errors.UsageError, match=r"give it name=|no lasting name"):
        handler_of(plain, name)


@pytest.mark.parametrize("name", [0, b"name", ["name"], object()])
def test_a_name_that_is_no_text_is_refused(name: Any) -> None:
    with pytest.raises(duly.errors.UsageError, match="must be text of 1 to 200 bytes"):
        handler_of(plain, name)


def test_a_name_may_be_as_long_as_the_table_takes() -> None:
    assert handler_of(plain, "x" * 200).name == "x" * 200


@pytest.mark.parametrize("pattern", ["", None, 0, b"*", ["*"], "x" * 501, "\ud800" * 167])
def test_a_pattern_that_matches_no_type_is_refused(pattern: object) -> None:
    with pytest.raises(
        duly.errors.UsageError, match=r"an event type such as 'invoice.paid', or a glob"
    ):
        checked_pattern(pattern)


def handlers_of(*patterns: str) -> Handlers:
    """A source's handlers, each named after its pattern."""
    handlers = Handlers()
    for pattern in patterns:
        handlers.add(checked_pattern(pattern), Handler(pattern, plain, frozenset(), "sync"))
    return handlers


def matched(handlers: Handlers, event_type: str | None) -> list[str]:
    return [handler.name for handler in handlers.matching(event_type)]


@pytest.mark.parametrize(
    ("event_type", "names"),
    [
        ("invoice.paid", ["*", "invoice.*", "invoice.paid", "*.paid"]),
        ("invoice.paid.late", ["*", "invoice.*"]),
        ("invoice", ["*"]),
        ("Invoice.paid", ["*", "*.paid"]),
        ("order1", ["*", "order?", "order[0-9]"]),
        ("orderx", ["*", "order?"]),
        ("invoice.\n", ["*", "invoice.*"]),
        ("", ["*"]),
        (None, ["*"]),
    ],
)
def test_a_pattern_is_an_exact_type_or_a_glob_in_the_order_of_the_handlers(
    event_type: str | None, names: list[str]
) -> None:
    handlers = handlers_of("*", "invoice.*", "invoice.paid", "*.paid", "order?", "order[0-9]")
    assert matched(handlers, event_type) == names


@pytest.mark.parametrize(
    "event_type", ["order[1]", "a*b", "who?", "[!x]", "[", "a]b", "[]", "\ud800"]
)
def test_a_type_that_looks_like_a_glob_is_matched_by_itself(event_type: str) -> None:
    assert matched(handlers_of(event_type), event_type) == [event_type]


def test_a_handler_is_called_once_however_many_of_its_patterns_match() -> None:
    handlers = Handlers()
    one, other = handler_of(plain, None), handler_of(awaited, None)
    for pattern, handler in (("*", one), ("a.*", other), ("a.b", one)):
        handlers.add(pattern, handler)
    assert handlers.matching("a.b") == (one, other)
    assert handlers.all() == (one, other, one)
    assert len(handlers) == 3


def test_a_callable_that_compares_by_value_is_matched_as_any_other() -> None:
    handlers = Handlers()
    handlers.add("*", handler_of(Mailer("shop"), "mail"))
    assert matched(handlers, "paid") == ["mail"]


def test_types_that_a_sender_makes_up_do_not_fill_memory() -> None:
    handlers = handlers_of("*")
    for number in range(3000):
        handlers.matching(f"made.up.{number}")
        handlers.matching(f"made.up.{number}" + "x" * 500)
    assert handlers._matching_cached.cache_info().currsize == 1024
    assert all(len(handlers.matching(made_up)) == 1 for made_up in ("made.up.1", "x" * 10**6))


def test_a_handler_that_is_added_late_is_found_at_once() -> None:
    handlers = handlers_of("a")
    assert matched(handlers, "b") == []
    handlers.add("b", handler_of(plain, None))
    assert matched(handlers, "b") == ["plain"]


def test_one_method_may_handle_several_types_of_a_source() -> None:
    app = duly.Duly("memory:")
    app.source("shop", secret="whsec_c2VjcmV0c2VjcmV0c2VjcmV0", provider="standard-webhooks")
    for pattern in ("invoice.*", "order.*"):
        app.on("shop", pattern)(plain)
        app.on("shop", pattern)(SHOP.handle)
    with pytest.raises(
        duly.errors.UsageError, match="has a handler plain already: give this one name="
    ):
        app.on("shop", name="plain")(nothing)
    app.close()
