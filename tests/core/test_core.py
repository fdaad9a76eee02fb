"""Promises of the kernel, which needs no database: pure functions, tried with everything."""

from __future__ import annotations

import asyncio
import pickle
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as some

import duly
from duly.core import json_bytes, versions
from duly.core.clock import from_microseconds, to_microseconds
from duly.core.errors import Parameter
from duly.core.ids import new_token, uuid7
from duly.core.keys import digest, key_of, readable_text
from duly.core.onestep import finish
from duly.errors import NotStorable, SyncAsyncMismatch, UsageError
from duly.ledger.dead_filters import EVERYTHING

SCALAR = (
    some.none()
    | some.booleans()
    | some.integers()
    | some.floats(allow_nan=False, allow_infinity=False)
    | some.text(some.characters())
)
JSON = some.recursive(
    SCALAR,
    lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
)
ANY_TEXT = some.text(some.characters())  # lone surrogates included


def test_an_operation_that_never_waits_is_finished_in_one_step() -> None:
    async def inner() -> int:
        return 20

    async def operation() -> int:
        return await inner() + 1

    assert finish(operation()) == 21


def test_an_error_of_an_operation_passes_through_unchanged() -> None:
    async def operation() -> None:
        raise KeyError("unchanged")

    with pytest.raises(KeyError, match="unchanged"):
        finish(operation())


def test_an_operation_that_tries_to_wait_is_stopped_at_once_and_cleaned_up() -> None:
    steps = []

    async def operation() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            steps.append("cleaned up")

    with pytest.raises(SyncAsyncMismatch, match=r"duly\.aio"):
        finish(operation())
    assert steps == ["cleaned up"]


@given(JSON)
def test_a_stored_result_comes_back_as_itself(value: Any) -> None:
    back = json_bytes.decode(json_bytes.encode(value))
    assert back == value
    assert type(back) is type(value)


@given(some.tuples(SCALAR) | some.dictionaries(some.integers(), SCALAR, min_size=1))
def test_a_result_that_would_come_back_as_something_else_is_refused(value: Any) -> None:
    with pytest.raises(NotStorable):
        json_bytes.encode(value)


def test_a_result_too_large_or_too_deep_is_refused() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for value in ("x" * (json_bytes.MOST_BYTES + 1), deep, 10**5000):
        with pytest.raises(NotStorable):
            json_bytes.encode(value)


class Point(NamedTuple):
    x: int


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (
            {"items": [1, 2, {"price": Decimal(3)}]},
            'payload["items"][2]["price"] is of type Decimal',
        ),
        ({"at": datetime(2026, 1, 1, tzinfo=UTC)}, 'payload["at"] is of type datetime'),
        ([{"a": (1,)}], 'payload[0]["a"] is of type tuple'),
        (Point(1), "payload is of type Point"),
        ({"by": {7: "x"}}, 'payload["by"] has a key of type int'),
        ({"by": {7: object()}}, 'payload["by"] has a key of type int'),
        ({"rate": float("nan")}, 'payload["rate"] is nan'),
        ({"k" * 5000: b"x"}, "payload"),
    ],
)
def test_what_cannot_be_stored_is_named_by_its_path_and_its_type(value: Any, told: str) -> None:
    with pytest.raises(NotStorable) as raised:
        json_bytes.encode(value, "payload")
    assert str(raised.value).startswith(told)
    assert len(str(raised.value)) < 400


def test_what_is_refused_is_named_as_the_caller_names_it() -> None:
    app = duly.Duly("memory:")

    @app.job(name="sell")
    def sell(job: duly.Job) -> None:
        """Never run."""

    priced: Any = {"price": Decimal(3)}
    with pytest.raises(NotStorable, match=r'^payload\["price"\] is of type Decimal'):
        app.enqueue(sell, priced)
    with pytest.raises(NotStorable, match=r'^json\["price"\] is of type Decimal'):
        app.send("https://shop.example/hook", json=priced)
    with duly.store("memory:") as store, pytest.raises(NotStorable, match=r"^result is of type"):
        duly.fence(store, "scope", "key", lambda: priced["price"])
    app.close()


def test_a_value_that_holds_itself_is_refused_at_once() -> None:
    value: list[Any] = []
    value += [value, value]
    with pytest.raises(NotStorable, match="or holds itself"):
        json_bytes.encode(value)


@given(some.lists(some.binary(), min_size=1), some.lists(some.binary(), min_size=1))
def test_different_parts_never_share_a_digest(one: list[bytes], other: list[bytes]) -> None:
    assert (digest(*one) == digest(*other)) == (one == other)


@given(some.tuples(ANY_TEXT, ANY_TEXT), some.tuples(ANY_TEXT, ANY_TEXT))
def test_different_scopes_and_keys_never_share_a_digest(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    assert (key_of(*one).digest == key_of(*other).digest) == (one == other)


@given(some.binary(max_size=2000))
def test_the_text_of_a_key_is_short_and_any_terminal_and_database_can_take_it(raw: bytes) -> None:
    text = readable_text(raw)
    assert text.isascii()
    assert text.isprintable()
    assert len(text) <= 10 * 120


@given(some.integers(versions.LEAST, versions.MOST), some.integers(versions.LEAST, versions.MOST))
def test_numbers_keep_their_order_as_bytes(one: int, other: int) -> None:
    ordered = versions.to_comparable(one).order < versions.to_comparable(other).order
    assert ordered == (one < other)


AWARE = some.datetimes(timezones=some.timezones())


@given(AWARE, AWARE)
def test_moments_keep_their_order_as_bytes_whatever_their_time_zone(
    one: datetime, other: datetime
) -> None:
    ordered = versions.to_comparable(one).order < versions.to_comparable(other).order
    assert ordered == (one.astimezone(UTC) < other.astimezone(UTC))


@given(some.text(min_size=1, max_size=200), some.text(min_size=1, max_size=200))
def test_text_versions_compare_bytewise(one: str, other: str) -> None:
    ordered = versions.to_comparable(one).order < versions.to_comparable(other).order
    assert ordered == (one.encode() < other.encode())


@given(some.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)))
def test_a_moment_survives_as_microseconds(naive: datetime) -> None:
    moment = naive.replace(tzinfo=timezone(timedelta(hours=-5)))
    assert from_microseconds(to_microseconds(moment)) == moment


def test_a_uuid7_says_so_and_sorts_by_time() -> None:
    before = datetime.now(UTC)
    made = [uuid7() for _ in range(100)]
    assert {one.version for one in made} == {7}
    assert {one.variant for one in made} == {"specified in RFC 4122"}
    assert len(set(made)) == 100
    stamped = EPOCH + timedelta(milliseconds=made[0].int >> 80)
    assert abs(stamped - before) < timedelta(minutes=1)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def test_tokens_do_not_repeat() -> None:
    assert len({new_token() for _ in range(10_000)}) == 10_000


def test_an_error_names_a_parameter_in_the_words_of_its_reader() -> None:
    problem = UsageError("an event {with} braces: give ", Parameter("since"), " or ", EVERYTHING)
    assert str(problem) == "an event {with} braces: give since= or all=True"
    assert problem.in_words(lambda one: f"--{one.name}") == (
        "an event {with} braces: give --since or --all"
    )
    assert str(pickle.loads(pickle.dumps(problem))) == str(problem)


def test_an_error_shows_its_whole_message_wherever_it_is_shown() -> None:
    problem = UsageError("give ", Parameter("since"), " or ", EVERYTHING)
    assert problem.args == ("give since= or all=True",)
    assert repr(problem) == "UsageError('give since= or all=True')"
    received = pickle.loads(pickle.dumps(problem))
    assert received.in_words(lambda one: f"--{one.name}") == "give --since or --all"
