"""A delivery as its provider makes it: signed, and signed again for the next attempt."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from duly.core.errors import Rejected, UsageError
from duly.core.extras import needs
from duly.webhooks.delivery import Delivery, fields_of
from duly.webhooks.event_fields import EventFields, read_event_fields
from duly.webhooks.selectors import DeliveryReader
from duly.webhooks.sign import Signed, fitting_scheme, sign
from duly.webhooks.strict_json import DEFAULT_LIMITS, ParsedBody
from duly.webhooks.wording import describe_content, signs_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.testing.sender.events import EventToSign
    from duly.webhooks.provider import Provider
    from duly.webhooks.schemes.scheme import Scheme
    from duly.webhooks.secrets import Secret

Manner = Literal["genuine", "tampered", "stale"]

# Beyond what a receiver may allow, so that its clock need not agree with ours.
STALE_BEYOND = timedelta(hours=1)
LETTER_OR_DIGIT = re.compile(rb"[0-9A-Za-z]")


@dataclass(frozen=True, slots=True)
class ProviderDelivery:
    """One event on its way to one URL."""

    provider: Provider
    secret: Secret
    url: str
    event: EventToSign
    headers: Mapping[str, str]
    manner: Manner
    age: timedelta

    def sign_attempt(self) -> Signed:
        """The delivery of an attempt made now."""
        signed = self.sign_genuine()
        return (
            tamper_body(signed, self.scheme, self.provider) if self.manner == "tampered" else signed
        )

    def sign_genuine(self) -> Signed:
        """The delivery as the provider would send it."""
        with needs("crypto", "cryptography"):
            return sign(
                self.provider,
                self.event.body,
                self.secret,
                id=self.event.id,
                type=self.event.type,
                now=time.time() - self.age.total_seconds(),
                url=self.url,
                headers=self.headers,
            )

    @property
    def scheme(self) -> Scheme[Any]:
        """How it is signed: some providers have several ways, told apart by the secret."""
        return fitting_scheme(self.provider.schemes, self.secret)

    @property
    def signs_each_attempt(self) -> bool:
        """True where every attempt has a signature of its own.

        Where the tolerance covers the retries, the profile expects the first attempt's time again.
        """
        horizon, tolerance = self.provider.retry_horizon, self.provider.tolerance
        repeats = tolerance is not None and timedelta(0) < horizon <= tolerance
        return signs_time(self.scheme) and not repeats

    def event_fields(self) -> tuple[EventFields, ...]:
        """What the receiver will read: one event, or several of a batch."""
        return read_event_fields(
            reading_of(self.sign_genuine(), self.provider), self.provider, self.scheme
        )


def stale_age(provider: Provider, scheme: Scheme[Any]) -> timedelta:
    """How long ago a delivery must have been signed to be refused for it."""
    if not (signs_time(scheme) or provider.sent_at_selector) or provider.tolerance is None:
        raise UsageError(
            f"{provider.title} signs no time this way, so a delivery of any age is genuine and "
            "nothing can be stale: only the ledger can tell it from a new one; use --duplicate 2"
        )
    return provider.tolerance + STALE_BEYOND


def moment_of(age: timedelta) -> datetime:
    """So long ago."""
    return datetime.now(UTC) - age


def reading_of(signed: Signed, provider: Provider) -> DeliveryReader:
    """A delivery as its receiver will read it."""
    return DeliveryReader(as_delivery(signed), ParsedBody(signed.body, DEFAULT_LIMITS, provider))


def unreadable_reason(signed: Signed, provider: Provider) -> str | None:
    """Why the body is no sound JSON, where it should be."""
    return reading_of(signed, provider).body.unreadable


def as_delivery(signed: Signed) -> Delivery:
    """A delivery as it arrives."""
    return Delivery(fields_of(signed.headers), signed.body, signed.url, signed.method, 0.0)


def tamper_body(signed: Signed, scheme: Scheme[Any], provider: Provider) -> Signed:
    """The same with one byte of its body changed, one that is signed, and the body still sound.

    From its end: what comes first is often the id, and an endpoint may look at that before it
    verifies. Adyen signs only some fields, so not every byte will do.
    """
    if not describe_content(scheme):
        raise UsageError(
            f"this way {provider.title} shows its token and signs nothing of the body, so that "
            "a changed one cannot be told: use a secret that signs"
        )
    essence, reason = scheme.dedup_content(as_delivery(signed)), unreadable_reason(signed, provider)
    for place in reversed(range(len(signed.body))):
        if not LETTER_OR_DIGIT.match(signed.body, place):
            continue
        changed = signed._replace(body=change_byte_at(signed.body, place))
        if (
            changes_signed_content(scheme, changed, essence)
            and unreadable_reason(changed, provider) == reason
        ):
            return changed
    raise UsageError(
        "the body must hold a letter or a digit that is signed: there is none to change"
    )


def changes_signed_content(scheme: Scheme[Any], changed: Signed, essence: object) -> bool:
    """Whether what is signed is another thing after the change."""
    try:
        return bool(scheme.dedup_content(as_delivery(changed)) != essence)
    except Rejected:  # Twilio's URL vouches for a JSON body, and says so at once
        return True


def change_byte_at(body: bytes, place: int) -> bytes:
    """The body with another letter or digit at this place."""
    byte = body[place : place + 1]
    other = b"1" if byte == b"2" else b"2" if byte.isdigit() else b"b" if byte == b"a" else b"a"
    return body[:place] + other + body[place + 1 :]
