"""A body is read the same with msgspec and without: the same value, or refused for the same reason.

Python's parser is the judge. msgspec is only asked where the two cannot differ.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.webhooks import Limits, Source, strict_json
from duly.webhooks.strict_json import DEFAULT_LIMITS, UnreadableBody, parse_json
from tests.webhooks.hostile import BODIES, VALUES, raw
from tests.webhooks.test_receive_plan import ORDINARY, SKIPPED

SETTINGS = settings(max_examples=2000 if os.environ.get("DULY_LONG") == "1" else 200, deadline=None)


def told(body: bytes, limits: Limits, watched: tuple[bytes, ...] | None) -> tuple[str, Any]:
    """The value with the types of all its parts, or the reason why there is none."""
    try:
        return "value", repr(parse_json(body, limits, watched).value)
    except UnreadableBody as problem:
        return "reason", str(problem)


def same(body: bytes, limits: Limits = DEFAULT_LIMITS) -> tuple[str, Any]:
    """What both parsers say of a body."""
    assert vars(strict_json)["msgspec"] is not None
    for watched in ((), (b'"id"',), None):
        quick = told(body, limits, watched)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(strict_json, "msgspec", None)
            assert quick == told(body, limits, watched), body[:200]
    return told(body, limits, ())


def test_every_hostile_body_is_read_the_same() -> None:
    values = [*map(raw, VALUES), *SKIPPED.values()]
    for body in (*BODIES, *values, *(b'{"id":1,"a":[' + value + b"]}" for value in values)):
        same(body)


@pytest.mark.parametrize("what", SKIPPED)
def test_what_msgspec_takes_too_lightly_has_the_same_reason(what: str) -> None:
    kind, _ = same(b'{"id":"e_1","a":' + SKIPPED[what] + b"}")
    assert kind == "reason"


def test_what_ordinary_senders_write_is_read_by_msgspec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict_json, "read_with_python", None)
    for text in ORDINARY.values():
        body = raw(f'{{"a":{text}}}')
        assert parse_json(body, DEFAULT_LIMITS, ()).value == json.loads(body)


def test_a_body_with_equal_keys_has_the_last_one_for_the_handler() -> None:
    body = b'{"id":"a","b":1,"i\\u0064":"b"}'
    assert Source("stripe", "secret").parse_json(body) == {"id": "b", "b": 1}


@SETTINGS
@given(number=st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_is_read_the_same(number: float) -> None:
    kind, text = same(repr(number).encode())
    assert (kind, float(text)) == ("value", number)


@SETTINGS
@given(
    text=st.from_regex(
        r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,60})?([eE][+-]?[0-9]{1,4})?", fullmatch=True
    )
)
def test_every_number_is_read_the_same_however_it_is_written(text: str) -> None:
    kind, _ = same(text.encode())
    assert (kind == "reason") == (math.isinf(float(text)) and not text.lstrip("-").isdigit())


@SETTINGS
@given(number=st.integers(-(10**400), 10**400))
def test_every_integer_is_exact(number: int) -> None:
    kind, text = same(b"[%d]" % number)
    assert (kind, text) == ("value", f"[{number}]") or len(str(abs(number))) > 400


trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@SETTINGS
@given(
    tree=trees,
    ascii_only=st.booleans(),
    indent=st.none() | st.integers(0, 4),
    cut=st.none() | st.tuples(st.integers(0, 200), st.binary(max_size=3)),
)
def test_any_document_is_read_the_same(
    tree: Any, ascii_only: bool, indent: int | None, cut: tuple[int, bytes] | None
) -> None:
    body = json.dumps(tree, ensure_ascii=ascii_only, indent=indent).encode()
    if cut is not None:
        place, other = cut
        body = body[:place] + other + body[place + 1 :]
    same(body)


@SETTINGS
@given(
    digits=st.integers(1, 60),
    run=st.integers(0, 80),
    before=st.text("x .1", max_size=30),
    behind=st.text("x .1", max_size=30),
)
def test_a_long_run_of_digits_is_never_overlooked(
    digits: int, run: int, before: str, behind: str
) -> None:
    body = f"{before}{'7' * run}{behind}".encode()
    longest = max(
        map(len, "".join(c if c.isdigit() else " " for c in body.decode()).split()), default=0
    )
    assert strict_json.has_long_number(body, digits) == (longest > digits)
