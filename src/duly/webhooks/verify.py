"""Is it genuine? From raw bytes to `Verified`, or `Rejected`, and nothing else."""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING, Any

from duly.core.errors import Code, Misuse, Rejected
from duly.webhooks.delivery import Delivery, checked_body, fields_of, seconds_of
from duly.webhooks.event_fields import moment as moment_of
from duly.webhooks.schemes.hmac import SharedKey
from duly.webhooks.secrets import hide
from duly.webhooks.selectors import Reading
from duly.webhooks.source import Source
from duly.webhooks.verified import Verified

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.webhooks.delivery import Headers, Moment
    from duly.webhooks.handshake import Reply
    from duly.webhooks.provider import Provider
    from duly.webhooks.schemes.scheme import Held, Scheme
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
        Misuse: the call itself is wrong: a body that was parsed, a URL that is needed and missing.
    """
    # A traceback that prints local variables shows this frame: what is secret leaves it at once.
    secrets = None if secrets is None else hide(secrets)
    trusted = (
        source if source.__class__ is Source and secrets is None else source_of(source, secrets)
    )
    moment = time() if now is None else seconds_of(now)
    if not all(isinstance(one, str) for one in (method, url or "")):
        raise Misuse("url and method must be strings: use str(request.url) and request.method")
    raw = body if body.__class__ is bytes else checked_body(body)
    url = trusted.url if url is None else url
    delivery = Delivery(fields_of(headers), raw, url, method, moment)
    del headers, body, raw
    return judged(trusted, delivery)


def source_of(source: object, secrets: object) -> Source:
    """A source as it is, or made for this one call."""
    secrets = None if secrets is None else hide(secrets)
    if isinstance(source, Source):
        if secrets is not None:
            raise Misuse("a Source has its own secrets: pass none, or pass its provider")
        return source
    if secrets is None:
        raise Misuse("secrets must be passed, or a Source that has them")
    return Source(source, secrets)  # type: ignore[arg-type]  # refused there if it is no provider


def judged(source: Source, delivery: Delivery) -> Verified:
    """The judgement, with the status that this provider understands."""
    scheme, keys = source.schemes[0] if source.one_scheme else meant(source, delivery)
    try:
        match = scheme.check(delivery, active(keys, delivery.now) if source.ends else keys)
        verified = Verified(source, scheme, match, delivery)
        if source.more_to_check:
            look_closer(source, verified, keys)
        if verified.sent is not None and source.tolerance is not None:
            age = delivery.now - verified.sent
            if not -source.ahead <= age <= source.tolerance:
                allowed = source.tolerance if age > 0 else source.ahead
                reason = f"it was signed {told(age)}, and this source allows {allowed:.0f}"
                raise Rejected(Code.STALE_TIMESTAMP, reason)
    except Rejected as problem:
        if source.provider.reject is not None and problem.code is not Code.MALFORMED:
            problem.status = source.provider.reject
        raise
    return verified


def meant(source: Source, delivery: Delivery) -> tuple[Scheme[Any], Sequence[Held[Any]]]:
    """The scheme that this delivery is signed with: the first one whose signature is there."""
    for one in source.schemes:
        if one[0].present(delivery):
            return one
    return source.schemes[0]


def active(keys: Sequence[Held[Any]], now: float) -> Sequence[Held[Any]]:
    """The keys that may be used at this time."""
    return [held for held in keys if not held.secret.ended(now)]


def look_closer(source: Source, verified: Verified, keys: Sequence[Held[Any]]) -> None:
    """What can only be told from the body of a genuine delivery."""
    if verified.scheme.reads_body and verified.odd is not None:
        raise Rejected(Code.MALFORMED, f"the body cannot be read: {verified.odd}")
    if verified.sent is None and source.provider.sent_place is not None:
        verified.sent = sent_in_body(verified.reading, source.provider)
    if source.provider.handshakes:
        verified.handshake = answered(source, verified, keys)
    if verified.handshake is not None:
        return  # a question is no event: it needs no id
    if source.missing_id == "reject" and any(one.id_kind == "body" for one in verified.items):
        raise Rejected(Code.MALFORMED, "the delivery names no event id, which this source refuses")
    if source.parse == "require" and not readable(verified):
        why = verified.odd or "it is null"
        raise Rejected(Code.MALFORMED, f"the body is no event, which this source refuses: {why}")


def sent_in_body(reading: Reading, provider: Provider) -> float | None:
    """The time in a signed body; nobody but the sender can have left it out."""
    place = provider.sent_place
    value = None if place is None else moment_of(reading.value(place))
    return None if value is None else value.timestamp()


def readable(verified: Verified) -> bool:
    """Whether a body is sound JSON, or a form."""
    return verified.odd is None and (verified.json is not None or bool(verified.form))


def told(age: float) -> str:
    """An age for people."""
    return f"{age:.0f} seconds ago" if age > 0 else f"{-age:.0f} seconds in the future"


def greeted(  # what a request is made of, each by its name
    source: Source,
    headers: Headers,
    body: bytes = b"",
    *,
    now: Moment = None,
    url: str | None = None,
    method: str = "GET",
) -> Reply | None:
    """The answer to a question that a provider asks without a signature; None if it is none.

    Ask this before `verify` where a profile has such questions; most ask theirs signed, and
    `Verified.handshake` holds the answer.
    """
    raw = checked_body(body)
    url = source.url if url is None else url
    moment = time() if now is None else seconds_of(now)
    delivery = Delivery(fields_of(headers), raw, url, method, moment)
    reading = Reading(delivery, source.limits, source.provider)
    keys = [held.key for _, several in source.schemes for held in active(several, moment)]
    shared = next((key for key in keys if isinstance(key, SharedKey)), None)
    for handshake in source.provider.handshakes:
        if not handshake.signed and handshake.asked(reading):
            return handshake.answer(reading, shared)
    return None


def answered(source: Source, verified: Verified, keys: Sequence[Held[Any]]) -> Reply | None:
    """The answer to a signed question, made with the secret that signed it."""
    key = next(held.key for held in keys if held.secret.name == verified.secret)
    shared = key if isinstance(key, SharedKey) else None
    for handshake in source.provider.handshakes:
        if handshake.signed and handshake.asked(verified.reading):
            return handshake.answer(verified.reading, shared)
    return None
