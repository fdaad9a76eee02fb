"""The event that a handler is given: its JSON is parsed when it is asked for, and once."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.inbox.event import parse_nothing

if TYPE_CHECKING:
    from collections.abc import Callable

    Copied = Callable[[duly.Event], duly.Event]

# Its method parses the bodies of real events.
SOURCE = duly.Source("stripe", "whsec_secret")
in_each_copy = pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))],
    ids=["copy", "deepcopy", "pickle"],
)


def event(body: bytes, **more: Any) -> duly.Event:
    """An event of this body."""
    return duly.Event(
        id="evt_1",
        type="paid",
        source="shop",
        tenant=None,
        body=body,
        headers={},
        form=(),
        time=None,
        received_at=datetime(2026, 1, 1, tzinfo=UTC),
        **more,
    )


def test_json_is_parsed_when_it_is_asked_for_and_once() -> None:
    asked: list[bytes] = []

    def parse(body: bytes) -> object:
        asked.append(body)
        return {"parsed": len(asked)}

    given = event(b"{}", parse=parse)
    assert repr(given)
    assert asked == []
    assert given.json == {"parsed": 1}
    assert given.json is given.json
    assert asked == [b"{}"]


@pytest.mark.parametrize(
    ("body", "found"), [(b'{"a": 1}', {"a": 1}), (b"", None), (b"NaN", None), (b"a=b", None)]
)
def test_an_event_made_by_hand_parses_its_body_strictly(body: bytes, found: object) -> None:
    assert event(body).json == found


def test_two_events_are_equal_whether_or_not_their_json_was_read() -> None:
    one, other = event(b'{"a": 1}'), event(b'{"a": 1}')
    assert one.json == {"a": 1}
    assert one == other


@in_each_copy
@pytest.mark.parametrize("is_read", [True, False], ids=["read before", "not read"])
def test_a_copy_has_the_same_json(copied: Copied, is_read: bool) -> None:
    first = event(b'{"lines": [1, 2]}', parse=SOURCE.parse_json)
    assert not is_read or first.json
    second = copied(first)
    assert second == first
    assert second.json == first.json == {"lines": [1, 2]}


@in_each_copy
def test_a_copy_of_an_unreadable_event_has_no_json_either(copied: Copied) -> None:
    assert copied(event(b"{}", parse=parse_nothing)).json is None


def test_a_deep_copy_shares_no_json_with_the_first() -> None:
    first = event(b'{"lines": [1, 2]}')
    copy.deepcopy(first).json["lines"].append(3)
    assert first.json == {"lines": [1, 2]}
