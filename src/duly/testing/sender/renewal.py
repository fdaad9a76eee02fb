"""The own time of a recorded event, moved to now; every other byte of its file stays.

A receiver parks an event that is older than what its ledger remembers. A signature is made again
for each attempt, but the time inside the body is that of the recording.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from duly.webhooks.delivery import Delivery
from duly.webhooks.event_fields import batch_items, parse_time
from duly.webhooks.selectors import DeliveryReader
from duly.webhooks.strict_json import DEFAULT_LIMITS, ParsedBody

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duly.testing.sender.documents import Plain
    from duly.webhooks.provider import Provider
    from duly.webhooks.selectors import Selector

SPACE = " \t\r\n\ufeff"
ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d")
DECODER = json.JSONDecoder()
Path = tuple[str, ...]


class RenewedBody(NamedTuple):
    """A body, and the move of its latest time where one was moved."""

    body: bytes
    before: datetime | None = None
    after: datetime | None = None


class EventTime(NamedTuple):
    """Where in a body an event says when it happened, and what it says."""

    path: Path
    value: Plain
    time: datetime


def renew_times(provider: Provider, body: bytes, now: datetime) -> RenewedBody:
    """Move the times of the events in a body so that the latest is now, in their own notation.

    Several events keep their distances, so that their order stays. A body is left alone where the
    profile finds no time in it, or looks for it in a header as well: such a time is not signed, and
    no receiver parks an event for it.
    """
    dated = list(times_in(provider, body))
    if not dated:
        return RenewedBody(body)
    latest = max(one.time for one in dated)
    shift = timedelta(seconds=int(now.timestamp()) - int(latest.timestamp()))
    try:
        return shift_times(body, dated, latest, shift)
    except OverflowError:  # so far apart that the earliest would leave the calendar
        return RenewedBody(body)


def shift_times(
    body: bytes, dated: list[EventTime], latest: datetime, shift: timedelta
) -> RenewedBody:
    """The body with all its times moved by as much."""
    text = body.decode()
    # From the end of the text to its start, so that a replacement moves no span to come.
    spans = [(span, one) for one in dated if (span := span_of(text, one.path)) is not None]
    for (start, stop), one in sorted(spans, key=lambda pair: pair[0], reverse=True):
        text = text[:start] + json.dumps(shift_value(one, shift)) + text[stop:]
    changed = bool(spans and shift)
    return RenewedBody(text.encode(), latest, latest + shift) if changed else RenewedBody(body)


def times_in(provider: Provider, body: bytes) -> Iterator[EventTime]:
    """The times of the events in a JSON body."""
    spot = provider.selectors.get("time")
    parsed = ParsedBody(body, DEFAULT_LIMITS, provider)
    reading = DeliveryReader(Delivery({}, body, None, "POST", 0.0), parsed)
    places = [] if spot is None else [one for parts in spot.alternatives for one in parts]
    if any(place.kind == "header" for place in places):
        return
    if reading.body.form or reading.body.json is None:
        return
    for way, item in events_in(provider, reading):
        found = next(values_at(reading, places, item), None)
        time = None if found is None else parse_time(found[1])
        if found is not None and time is not None:
            yield EventTime((*way, *found[0].path), found[1], time)


def values_at(
    reading: DeliveryReader, places: Sequence[Selector], item: object
) -> Iterator[tuple[Selector, Plain]]:
    """The values that are there, at the places of the body."""
    for place in places:
        value = reading.value(place, item) if place.kind == "body" else None
        if value is not None:
            yield place, value


def events_in(provider: Provider, reading: DeliveryReader) -> Iterator[tuple[Path, object]]:
    """Each event of a body, with the way to it: the whole body, or the items of a batch."""
    items = [] if provider.items is None else batch_items(reading, provider)
    if not items:
        yield (), None
        return
    start = (provider.items,) if provider.items else ()
    inner = () if provider.item is None else (provider.item,)
    for number, item in enumerate(items):
        yield (*start, str(number), *inner), item


def shift_value(dated: EventTime, shift: timedelta) -> Plain:
    """A time so much later, written as it was."""
    value, later = dated.value, dated.time + shift
    if isinstance(value, str) and ISO.match(value):
        return f"{later:%Y-%m-%d}{value[10]}{later:%H:%M:%S}{value[19:]}"
    number = as_number(value)
    if number is None:
        return later.isoformat()
    unit = round(number / dated.time.timestamp()) if dated.time.timestamp() else 1
    changed = number + int(shift.total_seconds()) * unit
    return str(changed) if isinstance(value, str) else changed


def as_number(value: Plain) -> int | float | None:
    """A time that is a number, in quotes or not."""
    if not isinstance(value, str):
        return value
    try:
        return int(value) if value.isdecimal() else float(value)
    except ValueError:
        return None


def span_of(text: str, path: Path) -> tuple[int, int] | None:
    """Where in a JSON text the value at a path begins and ends."""
    at: int | None = skip_whitespace(text, 0)
    try:
        for key in path:
            at = None if at is None else start_of(text, at, key)
        return None if at is None else (at, DECODER.raw_decode(text, at)[1])
    except (ValueError, IndexError, RecursionError):
        return None


def start_of(text: str, at: int, key: str) -> int | None:
    """Where the value of a key begins, in the object or list that begins here.

    Of a key that is there twice the last one counts, as for every reader of JSON in Python.
    """
    listed = text[at] == "["
    if not listed and text[at] != "{":
        return None
    at, number, found = skip_whitespace(text, at + 1), 0, None
    while text[at] not in "}]":
        name = str(number)
        if not listed:
            name, at = DECODER.raw_decode(text, at)
            at = skip_whitespace(text, skip_whitespace(text, at) + 1)  # behind the colon
        if name == key:
            found = at
        _, at = DECODER.raw_decode(text, at)
        at, number = skip_whitespace(text, at), number + 1
        if text[at] == ",":
            at = skip_whitespace(text, at + 1)
    return found


def skip_whitespace(text: str, at: int) -> int:
    """The next place that is no white space."""
    while at < len(text) and text[at] in SPACE:
        at += 1
    return at


def format_to_second(moment: datetime) -> str:
    """A time, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
