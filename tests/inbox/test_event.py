"""An event is a value: it can be copied and pickled, and its JSON is read from its body."""

import copy
import pickle
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

import duly
from duly.inbox.event import Event, parse_nothing

BODY = b'{"id":"evt_1","lines":[1,2]}'
DOCUMENT = {"id": "evt_1", "lines": [1, 2]}
NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
SOURCE = duly.Source("stripe", "whsec_secret")
COPIES: list[Callable[[Event], Event]] = [
    copy.copy,
    copy.deepcopy,
    lambda event: pickle.loads(pickle.dumps(event)),
]


def event(parse: Callable[[bytes], object] = SOURCE.parse_json) -> Event:
    return Event("evt_1", None, "stripe", None, BODY, {}, (), None, NOW, parse=parse)


@pytest.mark.parametrize("is_read", [True, False], ids=["read before", "not read"])
@pytest.mark.parametrize("copied", COPIES, ids=["copy", "deepcopy", "pickle"])
def test_a_copy_has_the_same_fields_and_the_same_json(
    copied: Callable[[Event], Event], is_read: bool
) -> None:
    first = event()
    if is_read:
        assert first.json == DOCUMENT
    second = copied(first)
    assert second == first
    assert second.json == first.json == DOCUMENT


@pytest.mark.parametrize("copied", COPIES, ids=["copy", "deepcopy", "pickle"])
def test_a_copy_of_an_unreadable_event_has_no_json_either(
    copied: Callable[[Event], Event],
) -> None:
    assert copied(event(parse_nothing)).json is None


def test_a_deep_copy_shares_no_json_with_the_first() -> None:
    first = event()
    copy.deepcopy(first).json["lines"].append(3)
    assert first.json == DOCUMENT


def test_json_is_parsed_once() -> None:
    first = event()
    assert first.json is first.json

