"""A delivery that is genuine: what it says, read when it is asked for."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from duly.core.exports import export_type
from duly.webhooks.event_fields import EventFields, digest_key, event_fields_of
from duly.webhooks.selectors import DeliveryReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.webhooks.delivery import Delivery
    from duly.webhooks.event_fields import IdKind
    from duly.webhooks.handshake import HandshakeReply
    from duly.webhooks.provider import Provider
    from duly.webhooks.schemes.scheme import Match, Scheme
    from duly.webhooks.source import Source


# Never kept, whoever sends them.
SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie"})


def secret_headers(provider: Provider) -> set[str]:
    """The headers in which this provider may show a secret, whichever scheme was used."""
    return {name for scheme in provider.schemes for name in scheme.secret_headers()}


@export_type
class Verified:
    """A genuine delivery.

    The facts of a batch with several events are in ``items``; the delivery's own id is then the
    digest of what was signed.
    """

    # Most deliveries only need to be told genuine: what else they say is read when asked for.
    handshake: HandshakeReply | None = None
    _reader: DeliveryReader | None = None
    _events: tuple[EventFields, ...] | None = None

    def __init__(
        self, source: Source, scheme: Scheme[Any], match: Match, delivery: Delivery
    ) -> None:
        self.secret, self.sent = match
        self._source = source
        self.scheme = scheme
        self._delivery = delivery

    @property
    def provider(self) -> Provider:
        """The profile of the sender."""
        return self._source.provider

    @property
    def reading(self) -> DeliveryReader:
        """The delivery being read."""
        if self._reader is None:
            self._reader = DeliveryReader(
                self._delivery, self._source.limits, self._source.provider
            )
        return self._reader

    @property
    def items(self) -> tuple[EventFields, ...]:
        """The events of this delivery: one, or one for each item of a batch."""
        if self._events is None:
            self._events = event_fields_of(self.reading, self.provider, self.scheme)
        return self._events

    @property
    def facts(self) -> EventFields:
        """The one event; of a batch, the delivery as a whole."""
        if len(self.items) == 1:
            return self.items[0]
        key = digest_key(self.scheme.dedup_content(self._delivery))
        return EventFields(key, "body", None, None, None, None, self.reading.document.value)

    @property
    def id(self) -> str:
        """The key to claim: the sender's id, or the digest of the body where there is none."""
        return self.facts.id

    @property
    def id_kind(self) -> IdKind:
        """What the id is worth: ``signed``, ``unsigned`` or ``body``."""
        return self.facts.id_kind

    @property
    def replay_key(self) -> str | None:
        """A second key to claim: known already if this is a known body under a fresh id."""
        return self.facts.replay_key

    @property
    def type(self) -> str | None:
        """The type of the event."""
        return self.facts.type

    @property
    def time(self) -> datetime | None:
        """When the event happened, by its own account."""
        return self.facts.time

    @property
    def version(self) -> int | str | datetime | None:
        """What orders the states of one object, for `newer`."""
        return self.facts.version

    @property
    def json(self) -> Any:
        """The parsed body, or None where it is odd; `odd` says why."""
        return None if self.odd else self.reading.document.value

    @property
    def odd(self) -> str | None:
        """Why the body was not read as JSON."""
        if self.reading.document.repeated:
            self.items  # noqa: B018  # looking for the id finds out whether it is ambiguous
        return self.reading.odd

    @property
    def form(self) -> list[tuple[str, str]]:
        """The fields of a form-encoded body."""
        return self.reading.form

    @property
    def body(self) -> bytes:
        """The raw bytes, as they were signed."""
        return self._delivery.body

    @property
    def fingerprint(self) -> bytes:
        """The SHA-256 of the raw body."""
        return hashlib.sha256(self.body).digest()

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers by lower-case name, to keep: without repeated ones and without secrets."""
        delivery = self._delivery
        kept = delivery.fields.keys() - SECRET_HEADERS - secret_headers(self.provider)
        texts = {name: delivery.header_text(name) for name in delivery.fields if name in kept}
        return {name: text for name, text in texts.items() if text is not None}

    def let_go(self) -> None:
        """Drop what was read of the body; it is read again when asked for."""
        self._reader = self._events = None

    def header(self, name: str) -> str | None:
        """One header by its lower-case name; None where it is missing or repeated."""
        return self._delivery.header_text(name)

    @property
    def sent_at(self) -> datetime | None:
        """When this attempt was signed, where the scheme says so."""
        try:
            return None if self.sent is None else datetime.fromtimestamp(self.sent, UTC)
        except (ValueError, OverflowError, OSError):
            return None

    def __repr__(self) -> str:
        return (
            f"Verified(provider={self.provider.name!r}, id={self.id!r}, type={self.type!r}, "
            f"secret={self.secret!r})"
        )
