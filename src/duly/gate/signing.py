"""Any provider is also a signer: genuine deliveries for tests, demonstrations and senders."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, NamedTuple

from duly._kernel.errors import Misuse
from duly.gate.delivery import checked_body, seconds_of
from duly.gate.schemes.base import Draft
from duly.gate.secrets import Secret, secrets_of
from duly.gate.source import Source, provider_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.gate.delivery import Moment
    from duly.gate.places import Place, Spot
    from duly.gate.provider import Provider


class Signed(NamedTuple):
    """A delivery ready to be sent. Some providers sign inside the body or through the URL."""

    headers: dict[str, str]
    body: bytes
    url: str | None
    method: str


def sign(  # noqa: PLR0913  # what a request is made of, each by its name
    source: str | Provider | Source,
    body: bytes,
    secret: object = None,
    *,
    id: str | None = None,  # the word that everybody uses
    type: str | None = None,
    now: Moment = None,
    url: str | None = None,
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
) -> Signed:
    """Sign a body as this provider does.

    Args:
        source: a provider's name, a `Provider` or a `Source`.
        body: the raw bytes to sign.
        secret: the shared secret, or the private key; a `Source` signs with its first.
        id: the event id, where it travels in a header; made from the body where none is given.
        type: the event type, where it travels in a header.
        now: the time to sign; the system's clock where none is given.
        url: the URL to send to, for providers that sign it.
        method: the method of the request.
        headers: further headers to send, and to sign where the provider does so.
    """
    provider = source.provider if isinstance(source, Source) else provider_of(source)
    signer = signer_of(source, secret)
    secret = None  # a traceback that prints locals shows this frame
    raw = checked_body(body)
    draft = Draft(
        body=raw,
        id="msg_" + hashlib.sha256(raw).hexdigest()[:24] if id is None else checked_id(id),
        timestamp=int(time.time() if now is None else seconds_of(now)),
        url=url,
        method=method,
        headers={"Content-Type": provider.content_type, **(headers or {})},
    )
    dress(draft, provider, type)
    provider.schemes[0].sign(draft, signer)
    return Signed(draft.headers, draft.body, draft.url, draft.method)


def signer_of(source: object, secret: object) -> Secret:
    """The one secret to sign with."""
    if isinstance(source, Source):
        if secret is not None:
            raise Misuse("a Source has its own secrets: pass none, or pass its provider")
        return source.secrets[0]
    if secret is None:
        raise Misuse("secret must be passed, or a Source that has one")
    return secrets_of(secret)[0]


def checked_id(identifier: object) -> str:
    """An id that can travel in a header."""
    if not isinstance(identifier, str) or not identifier.isascii() or not identifier.isprintable():
        raise Misuse("id must be printable ASCII: it travels in a header")
    return identifier


def dress(draft: Draft, provider: Provider, event_type: str | None) -> None:
    """The headers that name the event, where this provider has such."""
    given = {name.lower() for name in draft.headers}
    for fact, value in (("id", draft.id), ("type", event_type)):
        place = header_of(provider.spot(fact))
        if place is not None and value is not None and place.name not in given:
            draft.headers[place.name] = value


def header_of(spot: Spot | None) -> Place | None:
    """The header that holds a fact, where it is a header at all."""
    first = None if spot is None else spot.alternatives[0][0]
    return first if first is not None and first.kind == "header" else None
