"""Any provider is also a signer: genuine deliveries for tests, demonstrations and senders."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.core.errors import Rejected, UsageError
from duly.core.exports import export_type
from duly.webhooks.delivery import checked_body, seconds_of
from duly.webhooks.schemes.scheme import Draft
from duly.webhooks.secrets import Secret, hide, secrets_of
from duly.webhooks.source import Source, checked_url, problem_with_secret, provider_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.webhooks.delivery import Moment
    from duly.webhooks.provider import Provider
    from duly.webhooks.schemes.scheme import Scheme
    from duly.webhooks.secrets import Secrets
    from duly.webhooks.selectors import Selector, SelectorAlternatives


# Printable ASCII with something in it.
WORD = re.compile(r"(?=.*[!-~])[ -~]+")


@export_type
class Signed(NamedTuple):
    """A delivery ready to be sent. Some providers sign inside the body or through the URL."""

    headers: dict[str, str]
    body: bytes
    url: str | None
    method: str


def sign(  # noqa: PLR0913  # what a request is made of, each by its name
    source: str | Provider | Source,
    body: bytes,
    secret: Secrets | None = None,
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
    secret = None if secret is None else hide(secret)  # a traceback may print this frame
    provider = source.provider if isinstance(source, Source) else provider_of(source)
    signer = signer_of(source, secret)
    raw = checked_body(body)
    draft = Draft(
        body=raw,
        id="msg_" + hashlib.sha256(raw).hexdigest()[:24] if id is None else checked_word("id", id),
        timestamp=int(time.time() if now is None else seconds_of(now)),
        url=source.url if url is None and isinstance(source, Source) else checked_url(url),
        method=checked_word("method", method),
        headers={"Content-Type": provider.content_type},
    )
    for name, value in checked_headers(headers):
        draft.set_header(name, value)
    add_event_headers(draft, provider, None if type is None else checked_word("type", type))
    scheme = fitting_scheme(provider.schemes, signer)
    if isinstance(source, Source) and scheme.only_verifies(signer):
        raise UsageError(
            f"a source of {provider.title or provider.name} holds a public key, which cannot sign: "
            "pass the provider's name, and the private key as secret="
        )
    try:
        scheme.sign(draft, signer)
    except Rejected as problem:
        raise UsageError(
            f"this must be changed before it can be signed: {problem.reason}"
        ) from None
    return Signed(draft.headers, draft.body, draft.url, draft.method)


def fitting_scheme(schemes: Sequence[Scheme[Any]], signer: Secret) -> Scheme[Any]:
    """The first scheme that this secret is meant for."""
    return next((one for one in schemes if problem_with_secret(one, signer) is None), schemes[0])


def signer_of(source: object, secret: object) -> Secret:
    """The one secret to sign with."""
    if isinstance(source, Source):
        if secret is not None:
            raise UsageError("a Source has its own secrets: pass none, or pass its provider")
        return source.secrets[0]
    if secret is None:
        raise UsageError("secret must be passed, or a Source that has one")
    return secrets_of(secret)[0]


def checked_word(what: str, value: object) -> str:
    """Text that can travel in a header."""
    if not isinstance(value, str) or not WORD.fullmatch(value):
        raise UsageError(f"{what} must be printable ASCII, and not only spaces: it may be a header")
    return value


def checked_headers(headers: object) -> list[tuple[str, str]]:
    """Further headers, as text."""
    pairs = list(headers.items()) if isinstance(headers, Mapping) else []
    sound = all(isinstance(one, str) for pair in pairs for one in pair)
    if not sound or not (headers is None or isinstance(headers, Mapping)):
        raise UsageError("headers must be a mapping from names to text")
    return pairs


def add_event_headers(draft: Draft, provider: Provider, event_type: str | None) -> None:
    """The headers that name the event, where this provider has such."""
    given = {name.lower() for name in draft.headers}
    for name, value in (("id", draft.id), ("type", event_type)):
        selector = header_of(provider.selectors.get(name))
        if selector is not None and value is not None and selector.name not in given:
            draft.set_header(selector.spelled, value)


def header_of(selectors: SelectorAlternatives | None) -> Selector | None:
    """The header that holds a field, where it is a header at all."""
    first = None if selectors is None else selectors.alternatives[0][0]
    return first if first is not None and first.kind == "header" else None
