"""A delivery as a test asks for it: whose, about what, how old, and what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args
from urllib.parse import urlencode, urlsplit

from duly.core.errors import UsageError
from duly.core.extras import needs
from duly.core.validation import kind
from duly.testing.sender.events import EventRequest, event_of
from duly.testing.sender.provider_delivery import STALE_BEYOND, tamper_body
from duly.webhooks.sign import fitting_scheme, sign
from duly.webhooks.wording import signs_time

if TYPE_CHECKING:
    from datetime import datetime

    from duly.testing.sender.events import EventToSign
    from duly.webhooks.provider import Provider
    from duly.webhooks.schemes.scheme import Scheme
    from duly.webhooks.secrets import Secret
    from duly.webhooks.sign import Signed
    from duly.webhooks.source import Source

Payload = Mapping[str, Any] | list[Any] | bytes | str | Path | None
Wrong = Literal["signature", "body", "time"]
FORM = "application/x-www-form-urlencoded"


class DeliveryRequest(NamedTuple):
    """What a test asks for; everything may be left open."""

    payload: Payload
    id: str | None
    type: str | None
    headers: Mapping[str, str] | None
    wrong: Wrong | None
    age: timedelta | None
    secret: object
    path: str | None


@dataclass(frozen=True, slots=True)
class RequestedDelivery:
    """One event on its way to one source; signed as often as its sender would."""

    source: Source
    secret: Secret
    event: EventToSign
    url: str
    headers: Mapping[str, str] | None
    age: timedelta
    wrong: Wrong | None

    def sign_attempt(self, now: datetime) -> Signed:
        """The delivery of an attempt made now."""
        called = self.source.url or self.url  # as the provider knows it, in front of any proxy
        with needs("crypto", "cryptography"):
            signed = sign(
                self.source.provider,
                self.event.body,
                self.secret,
                id=self.event.id,
                type=self.event.type,
                now=now - self.age,
                url=called,
                headers=self.headers,
            )
        if self.wrong == "body":
            signed = tamper_body(signed, self.scheme, self.source.provider)
        asked = urlsplit(signed.url or "").query  # some sign in there
        return signed._replace(url=f"{self.url}?{asked}" if asked else self.url)

    @property
    def scheme(self) -> Scheme[Any]:
        """How it is signed."""
        return fitting_scheme(self.source.provider.schemes, self.secret)


def body_of(payload: Payload, provider: Provider) -> bytes | None:
    """The bytes to sign; None for the sample of the profile."""
    if payload is None or isinstance(payload, bytes):
        return payload
    if isinstance(payload, str):
        return payload.encode()
    if isinstance(payload, Path):
        return payload.read_bytes()
    if not isinstance(payload, Mapping | list):
        raise UsageError(
            f"a payload is what the body says, its bytes, or the pathlib.Path of a file, not "
            f"{kind(payload)}"
        )
    if provider.content_type == FORM and isinstance(payload, Mapping):
        return urlencode(payload, doseq=True).encode()
    if provider.items == "" and isinstance(payload, Mapping):
        payload = [payload]  # this sender posts a list, also of one
    return json.dumps(payload, separators=(",", ":")).encode()


def event_for(provider: Provider, request: DeliveryRequest, moment: datetime) -> EventToSign:
    """The event, with the id and the type where this provider has them."""
    if request.id == "" or request.type == "":
        raise UsageError("id and type must not be empty: leave them out")
    body = body_of(request.payload, provider)
    # A test says itself when an event happened, and moves the clock if it was long ago.
    wish = EventRequest(body, request.id, request.type, keep_time=True)
    return event_of(provider, wish, moment)


def checked_wrong(wrong: object) -> Wrong | None:
    """What is wrong with a delivery."""
    if wrong is not None and wrong not in get_args(Wrong):
        raise UsageError(f"wrong must be one of {', '.join(map(repr, get_args(Wrong)))}")
    return wrong  # type: ignore[return-value]  # that was looked at just now


def age_of(source: Source, scheme: Scheme[Any], request: DeliveryRequest) -> timedelta:
    """How long ago it was signed."""
    age = timedelta(0) if request.age is None else request.age
    if not isinstance(age, timedelta):
        raise UsageError(f"age must be a timedelta, not {kind(age)}")
    if request.wrong != "time":
        return age
    if request.age is not None:
        raise UsageError('wrong="time" is old enough to be refused: leave out age=')
    dated = signs_time(scheme) or source.provider.sent_at_selector is not None
    if not dated or source.tolerance is None:
        raise UsageError(
            f"source {source.name} takes deliveries of any age: {source.provider.title} signs no "
            "time this way, or tolerance=None says so; only the ledger knows a copy from a new one"
        )
    return timedelta(seconds=source.tolerance) + STALE_BEYOND
