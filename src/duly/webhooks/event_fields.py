"""What an event says of itself: its id and how far it can be trusted, type, time and version."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from duly.webhooks.selectors import join_values, text_of

if TYPE_CHECKING:
    from duly.webhooks.provider import Provider
    from duly.webhooks.schemes.scheme import Scheme
    from duly.webhooks.selectors import DeliveryReader, Selector

IdKind = Literal["signed", "unsigned", "body"]
Identity = tuple[str, IdKind, str | None]
# What stands in for an id; a sender's own id must never look like it.
STAND_IN: Final = re.compile(r"body_[0-9a-f]{64}")
LARGEST: Final = 2**63


@dataclass(frozen=True, slots=True)
class EventFields:
    """One event of a delivery.

    ``id_kind`` says what the id is worth: ``signed`` cannot be changed by anybody but the sender;
    ``unsigned`` is the sender's, but whoever repeats the delivery can put another in its place;
    ``body`` is no id at all, but the digest of what was signed. ``replay_key`` is a second key to
    claim where the id is not signed: it is known already if somebody sends a known body under a
    fresh id, and it is the id itself if they leave the id out.
    """

    id: str
    id_kind: IdKind
    replay_key: str | None
    type: str | None
    time: datetime | None
    version: int | str | datetime | None
    json: Any = field(repr=False)


def digest_key(content: bytes) -> str:
    """The key of a delivery that has no id."""
    return "body_" + hashlib.sha256(content).hexdigest()


def event_fields_of(
    reading: DeliveryReader, provider: Provider, scheme: Scheme[Any]
) -> tuple[EventFields, ...]:
    """The events of a delivery: one, or one for each item of a batch."""
    if provider.items is None:
        return (event_fields_of_item(reading, provider, scheme, None),)
    items = items_of(reading, provider)
    if not items:
        return (event_fields_of_item(reading, provider, scheme, None),)
    return tuple(event_fields_of_item(reading, provider, scheme, item) for item in items)


def items_of(reading: DeliveryReader, provider: Provider) -> list[Any]:
    """The items of a batch; a list with anything but objects in it is not taken apart."""
    node = reading.document.value
    if provider.items:
        node = node.get(provider.items) if isinstance(node, dict) else None
    found = node if isinstance(node, list) else []
    if provider.item is not None:
        found = [one.get(provider.item) if isinstance(one, dict) else None for one in found]
    return found if all(isinstance(one, dict) for one in found) else []


def event_fields_of_item(
    reading: DeliveryReader, provider: Provider, scheme: Scheme[Any], item: dict[str, Any] | None
) -> EventFields:
    """The facts of a delivery, or of one item of it."""
    identifier, kind, replay_key = identity(reading, provider, scheme, item)
    value = reading.document.value if item is None else item
    types = reading.first_complete(provider.spot("type"), item)
    times = reading.first_complete(provider.spot("time"), item)
    versions = reading.first_complete(provider.spot("version"), item)
    return EventFields(
        id=identifier,
        id_kind=kind,
        replay_key=replay_key,
        type=None if types is None else ".".join(map(text_of, types)),
        time=None if times is None else parse_time(times[0]),
        version=None if versions is None else version_of(versions[0]),
        json=None if reading.odd else value,
    )


def identity(
    reading: DeliveryReader, provider: Provider, scheme: Scheme[Any], item: dict[str, Any] | None
) -> Identity:
    """The id of an event, what it is worth, and the key that guards it where that is little.

    A signed id comes before an unsigned one: whoever repeats a delivery can change, add or leave
    out what is not signed, but must not choose by that which id counts.
    """
    for parts, signed in provider.id_places(scheme):
        text = identifier_at(reading, parts, item)
        if text is not None:
            if signed:
                return text, "signed", None
            return text, "unsigned", digest_key(scheme.dedup_content(reading.delivery))
    if item is not None:
        return digest_key(scheme.dedup_content_of_item(reading.document, item)), "body", None
    return digest_key(scheme.dedup_content(reading.delivery)), "body", None


def identifier_at(
    reading: DeliveryReader, parts: tuple[Selector, ...], item: dict[str, Any] | None
) -> str | None:
    """The id at these places, where it can be one."""
    values = reading.all_values(parts, item)
    if values is None or (len(values) == 1 and isinstance(values[0], bool)):
        return None
    text = join_values(values)
    return text if is_storable(text) and not STAND_IN.fullmatch(text) else None


def is_storable(text: str) -> bool:
    """Whether an id can be written to a store."""
    try:
        return 1 <= len(text.encode()) <= 4096 and "\0" not in text
    except UnicodeEncodeError:
        return False


def parse_time(value: object) -> datetime | None:
    """A time as providers write it: seconds, milliseconds or microseconds since 1970, or ISO."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return parse_iso_time(str(value))
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e17:
        return None
    for unit in (1_000_000, 1_000):
        if value >= 1e8 * unit:  # seconds reach that size in the year 5138
            value = value / unit
            break
    try:
        return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def parse_iso_time(text: str) -> datetime | None:
    """A time in ISO 8601 that names its zone."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def version_of(value: object) -> int | str | datetime | None:
    """A version that `newer` can compare: a number, a time, or text."""
    if isinstance(value, int):
        return value if -LARGEST <= value < LARGEST and not isinstance(value, bool) else None
    if isinstance(value, float):
        return parse_time(value)
    return parse_iso_time(str(value)) or str(value)
