"""Verification: raw bytes become a `VerifiedDelivery`, or `Rejected` is raised; nothing else."""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.core.errors import Code, Rejected, UsageError
from duly.webhooks.delivery import Delivery, checked_body, fields_of, seconds_of
from duly.webhooks.event_fields import VerifiedDelivery, parse_time
from duly.webhooks.quick_check import quick_signature
from duly.webhooks.schemes.hmac import SharedKey
from duly.webhooks.secrets import hide
from duly.webhooks.selectors import DeliveryReader
from duly.webhooks.source import Source
from duly.webhooks.strict_json import ParsedBody

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.webhooks.delivery import Headers, Moment
    from duly.webhooks.handshake import Handshake, HandshakeReply
    from duly.webhooks.provider import Provider
    from duly.webhooks.quick_check import QuickSignature
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
) -> VerifiedDelivery:
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
    delivery = delivery_of(trusted, headers, body, now=now, url=url, method=method)
    del headers, body
    if secrets is not None:  # a source for this one delivery
        return verify_delivery(trusted, delivery)
    quick = quick_of(trusted)
    found = quick.of_fields(delivery.fields, delivery.body, delivery.now)
    if found is None:
        return verify_delivery(trusted, delivery)
    return read_delivery(trusted, delivery, SignatureMatch(quick.scheme, quick.keys, *found))


def check_signature(  # noqa: PLR0913  # what a request is made of, each by its name
    source: str | Provider | Source,
    headers: Headers,
    body: bytes,
    secrets: Secrets | None = None,
    *,
    now: Moment = None,
    url: str | None = None,
    method: str = "POST",
) -> str:
    """Check the signature and its age alone, and return the name of the secret that matched.

    It takes what `verify` takes, raises what `verify` raises for a forged or stale delivery, and
    does not parse the body.
    """
    secrets = None if secrets is None else hide(secrets)
    trusted = (
        source if source.__class__ is Source and secrets is None else source_of(source, secrets)
    )
    if secrets is None and url is None and method == "POST" and body.__class__ is bytes:
        moment = time() if now is None else seconds_of(now)
        found = quick_of(trusted).of_headers(headers, body, moment)
        if found is not None:
            return found[0]
    delivery = delivery_of(trusted, headers, body, now=now, url=url, method=method)
    del headers, body
    return match_signature(trusted, delivery).secret


def quick_of(source: Source) -> QuickSignature:
    """The quick check of a source, made when it is first needed."""
    if source._quick is None:
        source._quick = quick_signature(source)
    return source._quick


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


def delivery_of(
    source: Source, headers: Headers, body: bytes, *, now: Moment, url: Any, method: Any
) -> Delivery:
    """The delivery that the caller passed, each part checked."""
    moment = time() if now is None else seconds_of(now)
    if not isinstance(method, str) or not (url is None or isinstance(url, str)):
        raise UsageError("url and method must be strings: use str(request.url) and request.method")
    raw = body if body.__class__ is bytes else checked_body(body)
    return Delivery(fields_of(headers), raw, source.url if url is None else url, method, moment)


class SignatureMatch(NamedTuple):
    """How a delivery is signed: the scheme, its keys, the secret that matched and the time."""

    scheme: Scheme[Any]
    keys: Sequence[LoadedKey[Any]]
    secret: str
    sent: float | None
    # Where the signed time is in the body, the body is parsed already.
    reader: DeliveryReader | None = None


def match_signature(source: Source, delivery: Delivery) -> SignatureMatch:
    """Find the secret that signed a delivery; `Rejected` has the status this provider expects."""
    scheme, keys = source.schemes[0] if source.one_scheme else select_scheme(source, delivery)
    provider, reader = source.provider, None
    try:
        active = active_keys(keys, delivery.now) if source.ends else keys
        secret, sent = scheme.check(delivery, active)
        if sent is None and provider.sent_at_selector is not None:
            # Only the sender can have left the time out of a signed body.
            reader = DeliveryReader(delivery, ParsedBody(delivery.body, source.limits, provider))
            sent_at = parse_time(reader.value(provider.sent_at_selector))
            sent = None if sent_at is None else sent_at.timestamp()
        if sent is not None and source.tolerance is not None:
            age = delivery.now - sent
            if not -source.ahead <= age <= source.tolerance:
                allowed = source.tolerance if age > 0 else source.ahead
                reason = f"it was signed {describe_age(age)}, and this source allows {allowed:.0f}"
                raise Rejected(Code.STALE_TIMESTAMP, reason)
    except Rejected as problem:
        if provider.reject is not None and problem.code is not Code.MALFORMED:
            problem.status = provider.reject
        raise
    return SignatureMatch(scheme, keys, secret, sent, reader)


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


def verify_delivery(source: Source, delivery: Delivery) -> VerifiedDelivery:
    """Check the signature, then read the events."""
    return read_delivery(source, delivery, match_signature(source, delivery))


def read_delivery(source: Source, delivery: Delivery, match: SignatureMatch) -> VerifiedDelivery:
    """Read the events of a delivery whose signature is right."""
    provider = source.provider
    reader = match.reader or DeliveryReader(
        delivery, ParsedBody(delivery.body, source.limits, provider)
    )
    # First: a key that is there twice makes the body unreadable, also if only a handshake has it.
    reply = answer_signed_handshake(match, reader, provider.handshakes)
    verified = VerifiedDelivery(provider, match, reader)
    verified.handshake = reply
    if source.more_to_check:
        inspect_body(source, verified)
    return verified


def inspect_body(source: Source, verified: VerifiedDelivery) -> None:
    """Refuse what this source does not take for an event."""
    if verified.scheme.reads_body and verified.unreadable is not None:
        raise Rejected(Code.MALFORMED, f"the body cannot be read: {verified.unreadable}")
    if verified.handshake is not None:
        return  # a question is no event: it needs no id
    if source.missing_id == "reject" and any(one.id_kind == "body" for one in verified.events):
        raise Rejected(Code.MALFORMED, "the delivery names no event id, which this source refuses")
    if source.parse == "require" and (
        verified.unreadable is not None or (verified.json is None and not verified.form)
    ):
        why = verified.unreadable or "it is null"
        raise Rejected(Code.MALFORMED, f"the body is no event, which this source refuses: {why}")


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
    `VerifiedDelivery.handshake` holds the answer.
    """
    delivery = delivery_of(source, headers, body, now=now, url=url, method=method)
    return answer_unsigned_handshake(source, delivery)


def answer_unsigned_handshake(source: Source, delivery: Delivery) -> HandshakeReply | None:
    """The answer to a question that comes without a signature; None if it is none."""
    reader = DeliveryReader(delivery, ParsedBody(delivery.body, source.limits, source.provider))
    active = [held for _, keys in source.schemes for held in active_keys(keys, delivery.now)]
    shared = next((held.key for held in active if isinstance(held.key, SharedKey)), None)
    for handshake in source.provider.handshakes:
        if not handshake.signed and handshake.matches(reader):
            return handshake.answer(reader, shared)
    return None


def answer_signed_handshake(
    match: SignatureMatch, reader: DeliveryReader, handshakes: Sequence[Handshake]
) -> HandshakeReply | None:
    """The answer to a signed question, made with the secret that signed it."""
    for handshake in handshakes:
        if handshake.signed and handshake.matches(reader):
            key = next(held.key for held in match.keys if held.secret.name == match.secret)
            return handshake.answer(reader, key if isinstance(key, SharedKey) else None)
    return None
