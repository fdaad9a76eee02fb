"""Public keys that a sender publishes: read from a JWKS document, fetched again when one is new.

`verify` never fetches anything. A `Keyset` stands around it: it holds the keys of the last
document, and when a delivery names a key that is not among them it has the document fetched once
more, by a function of yours, and verifies the delivery again. Anyone can name a key that does not
exist, so a fetch is followed by a pause.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from time import time
from typing import TYPE_CHECKING, Any, TypeAlias

from duly.core.errors import Code, Rejected, UsageError
from duly.core.onestep import finish
from duly.core.validation import checked_duration, kind
from duly.webhooks.delivery import seconds_of
from duly.webhooks.event_fields import parse_time
from duly.webhooks.secrets import Secret
from duly.webhooks.source import Source, problem_with_secret, provider_of
from duly.webhooks.verify import verify

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from duly.webhooks.delivery import Headers, Moment
    from duly.webhooks.event_fields import VerifiedDelivery
    from duly.webhooks.provider import Provider

Document: TypeAlias = "bytes | str | Mapping[str, Any]"

# Long enough that made-up key ids cost the sender's server nothing, short beside a rotation.
PAUSE = timedelta(seconds=60)
MOST_KEYS = 100


def keys_of(document: Document) -> tuple[Secret, ...]:
    """The public keys of a JWKS document, each under its key id. Keys of other uses pass."""
    listed = listed_keys(document)
    public = {
        name_of(jwk, number): jwk for number, jwk in enumerate(listed, start=1) if is_public(jwk)
    }
    secrets = [
        Secret(jwk, name=name, key_id=key_id(jwk), not_after=end_of(jwk))
        for name, jwk in public.items()
    ]
    if not secrets:
        raise UsageError("the JWKS document must hold at least one public key (OKP, EC or RSA)")
    return tuple(secrets)


def listed_keys(document: Document) -> list[Mapping[str, Any]]:
    """The entries of a document."""
    if isinstance(document, str | bytes):
        try:
            document = json.loads(document)
        except (ValueError, RecursionError):
            raise UsageError("the JWKS document must be JSON: check what fetch returns") from None
    listed = document.get("keys") if isinstance(document, Mapping) else None
    if not isinstance(listed, list) or len(listed) > MOST_KEYS:
        raise UsageError(
            f"the JWKS document must be an object with a list 'keys' of at most {MOST_KEYS}, not "
            f"{kind(document)}"
        )
    return [one for one in listed if isinstance(one, Mapping)]


def is_public(jwk: Mapping[str, Any]) -> bool:
    """Whether an entry is a public key for signatures."""
    usable = jwk.get("use", "sig") == "sig" and jwk.get("kty") in ("OKP", "EC", "RSA")
    return usable and "d" not in jwk


def key_id(jwk: Mapping[str, Any]) -> str | None:
    """The id of a key, where it has one."""
    kid = jwk.get("kid")
    return kid if isinstance(kid, str) and kid else None


def name_of(jwk: Mapping[str, Any], number: int) -> str:
    """What a key is called when it matches."""
    kid = "".join(one for one in key_id(jwk) or "" if one.isprintable())
    return f"{kid[:80]} ({number})" if len(kid) > 80 else kid or f"key {number}"


def end_of(jwk: Mapping[str, Any]) -> datetime | None:
    """When a key ends, where its entry says so: no standard does, but some senders write it."""
    return parse_time(jwk.get("not_after", jwk.get("exp")))


class KeysetState:
    """The state of a keyset: the source made of the last document, and when it was fetched."""

    def __init__(
        self, provider: str | Provider, fetch: object, pause: timedelta, options: dict[str, Any]
    ) -> None:
        if not callable(fetch):
            raise UsageError(
                f"fetch must be a function that returns the document, not {kind(fetch)}"
            )
        self.provider = provider
        self.options = options
        self.pause = checked_duration("pause", pause, least=timedelta(0)) / 1_000_000
        self.fetched_at = float("-inf")
        self.source: Source | None = None

    def use_document(self, document: Document, now: float) -> Source:
        """Use the keys of a document from now on."""
        schemes = provider_of(self.provider).schemes
        keys = keys_of(document)
        usable = [
            key for key in keys if any(problem_with_secret(one, key) is None for one in schemes)
        ]
        self.source = Source(self.provider, usable or keys, **self.options)
        self.fetched_at = now
        return self.source

    def may_fetch(self, problem: Rejected, now: float) -> bool:
        """Whether another document could help, and it is not too early to ask for it."""
        return problem.code is Code.UNKNOWN_KEY and now - self.fetched_at >= self.pause


async def verify_with_keyset(
    keys: KeysetState,
    fetch: Callable[[], Awaitable[Document]],
    now: Moment,
    request: dict[str, Any],
) -> VerifiedDelivery:
    """Verify a delivery, after one fetch where its key is new; sync and async share this."""
    instant = time() if now is None else seconds_of(now)
    source = keys.source or keys.use_document(await fetch(), instant)
    try:
        return verify(source, **request, now=instant)
    except Rejected as problem:
        if not keys.may_fetch(problem, instant):
            raise
    keys.fetched_at = instant  # also if it fails: the next made-up name must wait as well
    return verify(keys.use_document(await fetch(), instant), **request, now=instant)


class Keyset:
    """The published keys of a sender, with a function that fetches them.

    Args:
        provider: a provider's name, or a `Provider`.
        fetch: returns the JWKS document: bytes, text or the parsed object. What it raises reaches
            your caller: answer 503, and the sender will try again.
        pause: how long to wait after a fetch before an unknown key id may cause another.
        options: what `Source` takes: ``tolerance``, ``url``, ``missing_id`` and so on.
    """

    def __init__(
        self,
        provider: str | Provider,
        fetch: Callable[[], Document],
        *,
        pause: timedelta = PAUSE,
        **options: Any,
    ) -> None:
        self._keys = KeysetState(provider, fetch, pause, options)
        self._fetch = fetch

    def verify(
        self,
        headers: Headers,
        body: bytes,
        *,
        now: Moment = None,
        url: str | None = None,
        method: str = "POST",
    ) -> VerifiedDelivery:
        """Like `verify`, with the keys of the document."""

        async def fetch_document() -> Document:
            return self._fetch()

        request = {"headers": headers, "body": body, "url": url, "method": method}
        return finish(verify_with_keyset(self._keys, fetch_document, now, request))


class AsyncKeyset:
    """`Keyset` with a function that is awaited."""

    def __init__(
        self,
        provider: str | Provider,
        fetch: Callable[[], Awaitable[Document]],
        *,
        pause: timedelta = PAUSE,
        **options: Any,
    ) -> None:
        self._keys = KeysetState(provider, fetch, pause, options)
        self._fetch = fetch

    async def verify(
        self,
        headers: Headers,
        body: bytes,
        *,
        now: Moment = None,
        url: str | None = None,
        method: str = "POST",
    ) -> VerifiedDelivery:
        """`Keyset.verify`, awaited."""
        request = {"headers": headers, "body": body, "url": url, "method": method}
        return await verify_with_keyset(self._keys, self._fetch, now, request)
