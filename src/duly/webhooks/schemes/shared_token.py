"""Schemes that only show a password: a shared token, and HTTP basic authentication.

They prove that the sender knows the secret. They prove nothing about the body, the id or the time,
so nothing of a delivery counts as signed.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duly.core.errors import Code, Rejected, UsageError
from duly.webhooks.schemes.encodings import base64_text, decode_signature
from duly.webhooks.schemes.hmac import SharedKey, shared_key
from duly.webhooks.schemes.scheme import Draft, LoadedKey, Match, Scheme
from duly.webhooks.secrets import starts_with
from duly.webhooks.selectors import Selector, parse_selector, query_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.webhooks.delivery import Delivery
    from duly.webhooks.secrets import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedToken(Scheme[SharedKey]):
    """The secret itself, in a header or a parameter of the URL.

    Args:
        place: where it is: ``header:X-Gitlab-Token`` or ``query:token``.
        refuse: the beginning of secrets that are meant for another scheme of the same provider.
    """

    place: str
    refuse: str | None = None
    legacy: bool = False
    selector: Selector = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        selector = parse_selector(self.place)
        if selector.kind not in ("header", "query"):
            raise UsageError("a token must be in a header or in the query of the URL")
        object.__setattr__(self, "selector", selector)

    def key(self, secret: Secret) -> SharedKey:
        if self.refuse is not None and starts_with(secret, self.refuse):
            raise UsageError(f"the secret {secret.name!r} must not begin with {self.refuse}")
        return shared_key(secret, "text")

    def is_present(self, delivery: Delivery) -> bool:
        return self.sent_token(delivery) is not None

    def sent_token(self, delivery: Delivery) -> bytes | None:
        """The token as it was sent."""
        if self.selector.kind == "header":
            return delivery.header_bytes(self.selector.name)
        value = query_value(delivery.url, self.selector.name)
        return None if value is None else value.encode("utf-8", "replace")

    def check(self, delivery: Delivery, keys: Sequence[LoadedKey[SharedKey]]) -> Match:
        found = matching_secrets(self.sent_token(delivery), keys)
        if found is None:
            raise Rejected(Code.MISSING_SIGNATURE, f"the token in {self.place} is missing")
        return require_match(found)

    def sign(self, draft: Draft, secret: Secret) -> None:
        if self.selector.kind != "header":
            raise UsageError("a token in the URL is part of the URL you send to: write it there")
        draft.set_header(
            self.place.partition(":")[2], shared_key(secret, "text").raw.decode("latin-1")
        )

    def covers(self, selector: Selector) -> bool:  # noqa: ARG002
        return False

    def secret_headers(self) -> tuple[str, ...]:
        return (self.selector.name,) if self.selector.kind == "header" else ()

    def describe_location(self) -> str:
        return f"the token in {self.place}"


@dataclass(frozen=True, slots=True)
class BasicAuth(Scheme[SharedKey]):
    """HTTP basic authentication; the secret is ``user:password``."""

    legacy: bool = False

    def key(self, secret: Secret) -> SharedKey:
        if not holds_colon(secret):
            raise UsageError(f"the secret {secret.name!r} must be written as 'user:password'")
        return shared_key(secret, "text")

    def is_present(self, delivery: Delivery) -> bool:
        return delivery.has("authorization")

    def check(self, delivery: Delivery, keys: Sequence[LoadedKey[SharedKey]]) -> Match:
        if not delivery.has("authorization"):
            raise Rejected(Code.MISSING_SIGNATURE, "the header Authorization is missing")
        found = matching_secrets(credentials(delivery), keys)
        if found is None:
            raise Rejected(Code.MALFORMED, "the header Authorization is not basic authentication")
        return require_match(found)

    def sign(self, draft: Draft, secret: Secret) -> None:
        draft.set_header("Authorization", "Basic " + base64_text(self.key(secret).raw).decode())

    def covers(self, selector: Selector) -> bool:  # noqa: ARG002
        return False

    def describe_location(self) -> str:
        return "the header Authorization"


def credentials(delivery: Delivery) -> bytes | None:
    """The name and the password of a delivery, as they were sent."""
    header = delivery.header_bytes("authorization") or b""
    return decode_signature("base64", header[6:]) if header[:6].lower() == b"basic " else None


def matching_secrets(token: bytes | None, keys: Sequence[LoadedKey[SharedKey]]) -> list[str] | None:
    """The names of the secrets that match; all are compared. Raises nothing: it holds them."""
    if token is None:
        return None
    return [held.secret.name for held in keys if hmac.compare_digest(held.key.raw, token)]


def require_match(found: list[str]) -> Match:
    """The first secret that matched."""
    if not found:
        raise Rejected(Code.BAD_SIGNATURE, "the token is not one of this source's secrets")
    return found[0], None


def holds_colon(secret: Secret) -> bool:
    """Whether a secret can be a name and a password."""
    value = secret.reveal()
    text = value.encode() if isinstance(value, str) else value
    return isinstance(text, bytes) and bool(text.partition(b":")[2])
