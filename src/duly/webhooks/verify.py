"""Is it genuine? From raw bytes to `Verified`, or `Rejected`, and nothing else."""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING, Any

from duly.core.errors import Code, Rejected, UsageError
from duly.webhooks.delivery import Delivery, checked_body, fields_of, seconds_of
from duly.webhooks.event_fields import parse_time as moment_of
from duly.webhooks.schemes.hmac import SharedKey
from duly.webhooks.secrets import hide
from duly.webhooks.selectors import DeliveryReader
from duly.webhooks.source import Source
from duly.webhooks.verified import Verified

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.webhooks.delivery import Headers, Moment
    from duly.webhooks.handshake import HandshakeReply
    from duly.webhooks.provider import Provider
    from duly.webhooks.schemes.scheme import LoadedKey, Scheme
    from duly.webhooks.secrets import Secrets


def verify(  # noqa: PLR0913  # what a request is made of, each by its name
    source: str | Provider | Source,
    headers: Headers,
    body: bytes,
    secrets: Secrets | None = None,
    *,
    now: Moment = None,
    url: str | None = None,
    method: str = "POST",
) -> Verified:
    """Check that a delivery is genuine, from its raw bytes.

    Args:
        source: a provider's name, a `Provider`, or a `Source`, which is made ready only once.
        headers: a mapping or a list of pairs, in text or bytes, in any case.
        body: the raw bytes, before anything has parsed them.
        secrets: one secret, several, or a mapping from names to secrets; none with a `Source`.
        now: an aware datetime or seconds since 1970; the system's clock where none is given.
        url: the full URL that the provider was given, for those who sign it; the source's where
            none is passed.
        method: the method of the request.

    Raises:
        Rejected: it is not genuine, or too old; ``status`` is what to answer.
        UsageError: the call itself is wrong: a parsed body, a URL that is needed and missing.
    """
    # A traceback that prints local variables shows this frame: what is secret leaves it at once.
    secrets = None if secrets is None else hide(secrets)
    trusted = (
        source if source.__class__ is Source and secrets is None else source_of(source, secrets)
    )
    moment = time() if now is None else seconds_of(now)
    if not all(isinstance(one, str) for one in (method, url or "")):
        raise UsageError("url and method must be strings: use str(request.url) and request.method")
    raw = body if body.__class__ is bytes else checked_body(body)
    url = trusted.url if url is None else url
    delivery = Delivery(fields_of(headers), raw, url, method, moment)
    del headers, body, raw
    return verify_delivery(trusted, delivery)


def source_of(source: object, secrets: object) -> Source:
    """A source as it is, or made for this one call."""
    secrets = None if secrets is None else hide(secrets)
    if isinstance(source, Source):
        if secrets is not None:
            raise UsageError("a Source has its own secrets: pass none, or pass its provider")
        return source
    if secrets is None:
        raise UsageError("secrets must be passed, or a Source that has them")
    return Source(source, secrets)  # type: ignore[arg-type]  # refused there if it is no provider


def verify_delivery(source: Source, delivery: Delivery) -> Verified:
    """The judgement, with the status that this provider understands."""
    scheme, keys = source.schemes[0] if source.one_scheme else select_scheme(source, delivery)
    try:
        match = scheme.check(delivery, active_keys(keys, delivery.now) if source.ends else keys)
        verified = Verified(source, scheme, match, delivery)
        if source.more_to_check:
            inspect_body(source, verified, keys)
        if verified.sent is not None and source.tolerance is not None:
            age = delivery.now - verified.sent
            if not -source.ahead <= age <= source.tolerance:
                allowed = source.tolerance if age > 0 else source.ahead
                reason = f"it was signed {describe_age(age)}, and this source allows {allowed:.0f}"
                raise Rejected(Code.STALE_TIMESTAMP, reason)
    except Rejected as problem:
        if source.provider.reject is not None and problem.code is not Code.MALFORMED:
            problem.status = source.provider.reject
        raise
    return verified


def select_scheme(
    source: Source, delivery: Delivery
) -> tuple[Scheme[Any], Sequence[LoadedKey[Any]]]:
    """The scheme that this delivery is signed with: the first one whose signature is there."""
    for one in source.schemes:
        if one[0].is_present(delivery):
            return one
    return source.schemes[0]


def active_keys(keys: Sequence[LoadedKey[Any]], now: float) -> Sequence[LoadedKey[Any]]:
    """The keys that may be used at this time."""
    return [held for held in keys if not held.secret.ended(now)]


def inspect_body(source: Source, verified: Verified, keys: Sequence[LoadedKey[Any]]) -> None:
    """What can only be told from the body of a genuine delivery."""
    if verified.scheme.reads_body and verified.odd is not None:
        raise Rejected(Code.MALFORMED, f"the body cannot be read: {verified.odd}")
    if verified.sent is None and source.provider.sent_place is not None:
        verified.sent = sent_in_body(verified.reading, source.provider)
    if source.provider.handshakes:
        verified.handshake = answer_signed_handshake(source, verified, keys)
    if verified.handshake is not None:
        return  # a question is no event: it needs no id
    if source.missing_id == "reject" and any(one.id_kind == "body" for one in verified.items):
        raise Rejected(Code.MALFORMED, "the delivery names no event id, which this source refuses")
    if source.parse == "require" and not is_readable(verified):
        why = verified.odd or "it is null"
        raise Rejected(Code.MALFORMED, f"the body is no event, which this source refuses: {why}")


def sent_in_body(reading: DeliveryReader, provider: Provider) -> float | None:
    """The time in a signed body; nobody but the sender can have left it out."""
    place = provider.sent_place
    value = None if place is None else moment_of(reading.value(place))
    return None if value is None else value.timestamp()


def is_readable(verified: Verified) -> bool:
    """Whether a body is sound JSON, or a form."""
    return verified.odd is None and (verified.json is not None or bool(verified.form))


def describe_age(age: float) -> str:
    """An age for people."""
    return f"{age:.0f} seconds ago" if age > 0 else f"{-age:.0f} seconds in the future"


def answer_handshake(  # what a request is made of, each by its name
    source: Source,
    headers: Headers,
    body: bytes = b"",
    *,
    now: Moment = None,
    url: str | None = None,
    method: str = "GET",
) -> HandshakeReply | None:
    """The answer to a question that a provider asks without a signature; None if it is none.

    Ask this before `verify` where a profile has such questions; most ask theirs signed, and
    `Verified.handshake` holds the answer.
    """
    raw = checked_body(body)
    url = source.url if url is None else url
    moment = time() if now is None else seconds_of(now)
    delivery = Delivery(fields_of(headers), raw, url, method, moment)
    reading = DeliveryReader(delivery, source.limits, source.provider)
    keys = [held.key for _, several in source.schemes for held in active_keys(several, moment)]
    shared = next((key for key in keys if isinstance(key, SharedKey)), None)
    for handshake in source.provider.handshakes:
        if not handshake.signed and handshake.matches(reading):
            return handshake.answer(reading, shared)
    return None


def answer_signed_handshake(
    source: Source, verified: Verified, keys: Sequence[LoadedKey[Any]]
) -> HandshakeReply | None:
    """The answer to a signed question, made with the secret that signed it."""
    key = next(held.key for held in keys if held.secret.name == verified.secret)
    shared = key if isinstance(key, SharedKey) else None
    for handshake in source.provider.handshakes:
        if handshake.signed and handshake.matches(verified.reading):
            return handshake.answer(verified.reading, shared)
    return None
