"""A verified delivery and the fields of its events: id, type, time and version."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from duly.core.exports import export_type, old_names
from duly.webhooks.selectors import join_values, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.webhooks.handshake import HandshakeReply
    from duly.webhooks.provider import FieldPlan, Provider
    from duly.webhooks.schemes.scheme import Scheme
    from duly.webhooks.selectors import DeliveryReader
    from duly.webhooks.verify import SignatureMatch

IdKind = Literal["signed", "unsigned", "body"]
Identity = tuple[str, IdKind, str | None]
# What stands in for an id; a sender's own id must never look like it.
STAND_IN: Final = re.compile(r"body_[0-9a-f]{64}")
LARGEST: Final = 2**63
# Seconds since 1970 reach this in the year 5138: a larger number counts milliseconds or less.
SECONDS: Final = 10**11
# Never kept, from no sender.
SECRET_HEADERS: Final = frozenset({"authorization", "proxy-authorization", "cookie"})


class EventFields(NamedTuple):
    """The fields of one event.

    ``id_kind`` says what the id is worth: only the sender can have written a ``signed`` one; an
    ``unsigned`` one is the sender's, but anyone who repeats the delivery can put another in its
    place; ``body`` is no id at all, but the digest of what was signed. ``replay_key`` is a second
    key to claim where the id is not signed: it is known already if a known body comes under a fresh
    id, and it is the id itself if the id is left out.
    """

    id: str
    id_kind: IdKind
    replay_key: str | None
    type: str | None
    time: datetime | None
    version: int | str | datetime | None
    json: Any

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in zip(self._fields, self[:-1], strict=False))
        return f"EventFields({', '.join(shown)})"


@export_type
@old_names("verified", items="events", odd="unreadable", facts="event")
class VerifiedDelivery:
    """A genuine delivery: its events, and the secret that signed it.

    ``id``, ``type`` and the other fields are those of its one event. A batch has its events in
    ``events``; the delivery's own id is then the digest of what was signed.
    """

    __slots__ = (
        "body", "events", "form", "handshake", "json", "provider", "reader", "scheme", "secret",
        "sent", "unreadable",
    )  # fmt: skip

    def __init__(self, provider: Provider, match: SignatureMatch, reader: DeliveryReader) -> None:
        self.provider = provider
        self.scheme = match.scheme
        self.reader = reader
        # The name of the secret, and the signed time in seconds since 1970.
        self.secret, self.sent = match.secret, match.sent
        # One event, or one for each item of a batch.
        self.events = read_event_fields(reader, provider, match.scheme)
        # The raw bytes, as they were signed.
        self.body = reader.delivery.body
        parsed = reader.body
        # Why the body is no sound JSON; its ``json`` is None then.
        self.unreadable: str | None = parsed.unreadable
        self.json: Any = None if parsed.unreadable else parsed.document.value
        self.form: list[tuple[str, str]] = parsed.form
        # The answer, where the delivery is a question of the provider's and no event.
        self.handshake: HandshakeReply | None = None

    @property
    def event(self) -> EventFields:
        """The one event; of a batch, the delivery as a whole."""
        if len(self.events) == 1:
            return self.events[0]
        key = digest_key(self.scheme.dedup_content(self.reader.delivery))
        return EventFields(key, "body", None, None, None, None, self.json)

    @property
    def id(self) -> str:
        """The key to claim: the sender's id, or the digest of the body where there is none."""
        return self.event.id

    @property
    def id_kind(self) -> IdKind:
        """What the id is worth: ``signed``, ``unsigned`` or ``body``."""
        return self.event.id_kind

    @property
    def replay_key(self) -> str | None:
        """A second key to claim: known already if this is a known body under a fresh id."""
        return self.event.replay_key

    @property
    def type(self) -> str | None:
        """The type of the event."""
        return self.event.type

    @property
    def time(self) -> datetime | None:
        """When the event happened, by its own account."""
        return self.event.time

    @property
    def version(self) -> int | str | datetime | None:
        """What orders the states of one object, for `newer`."""
        return self.event.version

    @property
    def fingerprint(self) -> bytes:
        """The SHA-256 of the raw body."""
        return hashlib.sha256(self.body).digest()

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers by lower-case name, to keep: without repeated ones and without secrets."""
        delivery = self.reader.delivery
        shown = {name for scheme in self.provider.schemes for name in scheme.secret_headers()}
        kept = delivery.fields.keys() - SECRET_HEADERS - shown
        texts = {name: delivery.header_text(name) for name in delivery.fields if name in kept}
        return {name: text for name, text in texts.items() if text is not None}

    @property
    def sent_at(self) -> datetime | None:
        """When this attempt was signed, where the scheme says so."""
        try:
            return None if self.sent is None else datetime.fromtimestamp(self.sent, UTC)
        except (ValueError, OverflowError, OSError):
            return None

    def header(self, name: str) -> str | None:
        """One header by its lower-case name; None where it is missing or repeated."""
        return self.reader.delivery.header_text(name)

    def __repr__(self) -> str:
        return (
            f"VerifiedDelivery(provider={self.provider.name!r}, id={self.id!r}, "
            f"type={self.type!r}, secret={self.secret!r})"
        )


def digest_key(content: bytes) -> str:
    """The key of a delivery that has no id."""
    return "body_" + hashlib.sha256(content).hexdigest()


def read_event_fields(
    reader: DeliveryReader, provider: Provider, scheme: Scheme[Any]
) -> tuple[EventFields, ...]:
    """The fields of each event of a delivery: one event, or one for each item of a batch."""
    plan = provider.plans.get(id(scheme)) or provider.plan_for(scheme)
    items = [] if provider.items is None else batch_items(reader, provider)
    if not items:
        return (event_fields(reader, plan, scheme, None),)
    return tuple([event_fields(reader, plan, scheme, item) for item in items])


def batch_items(reader: DeliveryReader, provider: Provider) -> list[Any]:
    """The items of a batch; a list with anything but objects in it is not taken apart."""
    node = reader.body.document.value
    if provider.items:
        node = node.get(provider.items) if isinstance(node, dict) else None
    found = node if isinstance(node, list) else []
    if provider.item is not None:
        found = [one.get(provider.item) if isinstance(one, dict) else None for one in found]
    return found if all(isinstance(one, dict) for one in found) else []


def event_fields(
    reader: DeliveryReader, plan: FieldPlan, scheme: Scheme[Any], item: dict[str, Any] | None
) -> EventFields:
    """The fields of a delivery, or of one item of it."""
    identifier, kind, replay_key = identity(reader, plan, scheme, item)
    types = reader.select(plan.type, item)
    event_type = None if types is None else types[0]
    if types is not None and (len(types) > 1 or event_type.__class__ is not str):
        event_type = ".".join([text_of(one) for one in types if one is not None])
    times = reader.select(plan.time, item)
    versions = times if plan.version is plan.time else reader.select(plan.version, item)
    body = reader.body
    return EventFields(
        identifier,
        kind,
        replay_key,
        event_type,
        None if times is None else parse_time(times[0] or first_of(times)),
        None if versions is None else version_of(versions[0] or first_of(versions)),
        None if body.unreadable else body.document.value if item is None else item,
    )


def identity(
    reader: DeliveryReader, plan: FieldPlan, scheme: Scheme[Any], item: dict[str, Any] | None
) -> Identity:
    """The id of an event, what it is worth, and the key that guards it where that is little.

    A signed id comes before an unsigned one: anyone who repeats a delivery can change, add or leave
    out what is not signed, but must not choose by that which id counts.
    """
    for parts, signed in plan.id:
        values = reader.select((parts,), item)
        if values is None:
            continue
        text = values[0]
        if text.__class__ is not str or len(values) > 1 or text.startswith("["):
            if len(values) == 1 and isinstance(text, bool):
                continue
            text = join_values(values)
        plain = 0 < len(text) <= 4096 and text.isascii() and text.isprintable()
        stand_in = text.startswith("body_") and STAND_IN.fullmatch(text)
        if (plain or is_storable(text)) and not stand_in:
            if signed:
                return text, "signed", None
            return text, "unsigned", digest_key(scheme.dedup_content(reader.delivery))
    if item is not None:
        return digest_key(scheme.dedup_content_of_item(reader.body.document, item)), "body", None
    return digest_key(scheme.dedup_content(reader.delivery)), "body", None


def first_of(values: list[Any]) -> Any:
    """The first part that is not missing."""
    return next(value for value in values if value is not None)


def is_storable(text: str) -> bool:
    """Whether an id can be written to a store."""
    try:
        return 1 <= len(text.encode()) <= 4096 and "\0" not in text
    except UnicodeEncodeError:
        return False


def parse_time(value: object) -> datetime | None:
    """A time as providers write it: seconds, milliseconds or microseconds since 1970, or ISO."""
    if value.__class__ is int and 0 <= value < SECONDS:  # nearly always
        return datetime.fromtimestamp(value, UTC)
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return parse_iso_time(str(value))
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e17:
        return None
    for unit in (1_000_000, 1_000):
        if value >= SECONDS / 1000 * unit:
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
