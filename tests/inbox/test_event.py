"""The event that a handler is given: its JSON is parsed when it is asked for, and once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

import duly


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
