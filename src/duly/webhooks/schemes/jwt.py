"""A JSON Web Token in a header, bound to the body by a claim that holds the body's digest.

The algorithm is never the token's choice: only those that the profile lists are accepted, and a
shared secret is never mixed with public keys. The claims are checked at the ``now`` of the call,
which is why this is not left to a library that asks the system clock.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from duly.core.errors import Code, Rejected, UsageError
from duly.webhooks.schemes.encodings import base64url_text, checked_digest, decode_signature
from duly.webhooks.schemes.hmac import shared_key
from duly.webhooks.schemes.jwt_algorithms import (
    ALGORITHMS,
    SHARED,
    is_valid_signature,
    make_signature,
)
from duly.webhooks.schemes.public_keys import any_private, any_public
from duly.webhooks.schemes.scheme import Draft, LoadedKey, Match, Scheme, with_key_id
from duly.webhooks.strict_json import UnreadableBody, parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.webhooks.delivery import Delivery
    from duly.webhooks.secrets import Secret
    from duly.webhooks.selectors import Selector

# How far the clocks of the two sides may be apart when a token begins or ends.
LEEWAY = 60
# A token with a certificate chain stays far below it; the claims of a webhook are a few fields.
LONGEST = 16 * 1024


@dataclass(frozen=True, slots=True)
class Token:
    """A token taken apart, not yet believed."""

    header: Mapping[str, Any]
    claims: Mapping[str, Any]
    signed: bytes
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Jwt(Scheme[Any]):
    """A signed token in a header.

    Args:
        header: where the token is.
        algorithms: the accepted ones, such as ``("ES256",)``; the first one signs.
        prefix: what stands before the token, such as ``"Bearer "``.
        body_claim: the claim that holds the digest of the body, in hex. Without it the body is
            not covered.
        digest: the hash of the body claim.
        claims: claims that must have these values, such as ``{"iss": "acme"}``.
    """

    header: str
    algorithms: tuple[str, ...]
    prefix: str = ""
    body_claim: str | None = None
    digest: str = "sha256"
    claims: Mapping[str, object] = field(default_factory=dict)
    legacy: bool = False

    def __post_init__(self) -> None:
        checked_digest(self.digest)
        unknown = [one for one in self.algorithms if one not in ALGORITHMS]
        if unknown or not self.algorithms:
            raise UsageError(f"algorithms must be some of {', '.join(ALGORITHMS)}")
        if len({one in SHARED for one in self.algorithms}) > 1:
            raise UsageError("algorithms must not mix shared secrets (HS…) with public keys")

    @property
    def is_shared(self) -> bool:
        return self.algorithms[0] in SHARED

    def key(self, secret: Secret) -> Any:
        return shared_key(secret, "text") if self.is_shared else any_public(secret)

    def signing_key(self, secret: Secret) -> Any:
        return shared_key(secret, "text") if self.is_shared else any_private(secret)

    def only_verifies(self, secret: Secret) -> bool:  # noqa: ARG002
        return not self.is_shared

    def is_present(self, delivery: Delivery) -> bool:
        return delivery.has(self.header.lower())

    def check(self, delivery: Delivery, keys: Sequence[LoadedKey[Any]]) -> Match:
        token = self.token(delivery)
        algorithm = token.header.get("alg")
        if algorithm not in self.algorithms:
            raise Rejected(Code.BAD_SIGNATURE, "the token names an algorithm that is not accepted")
        key_id = token.header.get("kid")
        fitting = with_key_id(keys, key_id if isinstance(key_id, str) else None)
        found = [
            one
            for one in fitting
            if is_valid_signature(algorithm, one.key, token.signature, token.signed)
        ]
        if not found:
            raise Rejected(Code.BAD_SIGNATURE, "the token matches no key of this source")
        self.check_claims(token.claims, delivery)
        return found[0].secret.name, issued_at(token.claims)

    def token(self, delivery: Delivery) -> Token:
        """The token of a delivery, taken apart."""
        header = delivery.header_bytes(self.header.lower())
        if header is None:
            raise Rejected(Code.MISSING_SIGNATURE, f"the header {self.header} is missing")
        prefix = self.prefix.encode()
        if not header.startswith(prefix) or len(header) > LONGEST:
            raise Rejected(Code.MALFORMED, f"the header {self.header} holds no token")
        return parse_token(header[len(prefix) :])

    def check_claims(self, claims: Mapping[str, Any], delivery: Delivery) -> None:
        """Whether genuine claims are about this delivery, for us, and now."""
        for name, expected in self.claims.items():
            if claims.get(name) != expected:
                raise Rejected(Code.BAD_SIGNATURE, f"the token's claim {name} is another one")
        if not is_current(claims, delivery.now):
            raise Rejected(Code.STALE_TIMESTAMP, "the token is not valid at this time")
        if self.body_claim is not None:
            expected_digest = hashlib.new(self.digest, delivery.body).hexdigest().encode()
            claimed = str(claims.get(self.body_claim, "")).encode("utf-8", "replace")
            if not hmac.compare_digest(expected_digest, claimed):
                raise Rejected(Code.BAD_SIGNATURE, "the token was made for another body")

    def sign(self, draft: Draft, secret: Secret) -> None:
        header: dict[str, object] = {"alg": self.algorithms[0], "typ": "JWT"}
        if secret.key_id is not None:
            header["kid"] = secret.key_id
        claims = {"iat": draft.timestamp, "jti": draft.id, **self.claims}
        if self.body_claim is not None:
            claims[self.body_claim] = hashlib.new(self.digest, draft.body).hexdigest()
        signed = base64url_text(compact_json(header)) + b"." + base64url_text(compact_json(claims))
        signature = make_signature(self.algorithms[0], self.signing_key(secret), signed)
        draft.set_header(self.header, self.prefix + (signed + b"." + signature).decode())

    def covers(self, selector: Selector) -> bool:
        return self.body_claim is not None and selector.kind in ("body", "form")

    def describe_location(self) -> str:
        return f"the header {self.header}"


def parse_token(token: bytes) -> Token:
    """The three parts of a token, decoded strictly."""
    malformed = Rejected(Code.MALFORMED, "the token is not three parts of base64url JSON")
    parts = token.split(b".")
    raw = [decode_signature("base64url", part) for part in parts]
    if len(raw) != 3 or any(one is None for one in raw):
        raise malformed
    try:
        header, claims = (parse_json(one or b"").value for one in raw[:2])
    except UnreadableBody:
        raise malformed from None
    if not isinstance(header, dict) or not isinstance(claims, dict) or "crit" in header:
        raise malformed
    return Token(header, claims, parts[0] + b"." + parts[1], raw[2] or b"")


def is_current(claims: Mapping[str, Any], now: float) -> bool:
    """Whether a token has begun and has not ended."""
    ends, begins = claims.get("exp"), claims.get("nbf")
    times = [one for one in (ends, begins) if one is not None]
    if any(not isinstance(one, int | float) or isinstance(one, bool) for one in times):
        return False
    return (ends is None or now <= ends + LEEWAY) and (begins is None or now >= begins - LEEWAY)


def issued_at(claims: Mapping[str, Any]) -> float | None:
    """When a token was made, where it says so in whole or broken seconds."""
    claimed = claims.get("iat")
    return float(claimed) if isinstance(claimed, int | float) and abs(claimed) < 1e12 else None


def compact_json(value: Mapping[str, object]) -> bytes:
    """JSON without a space."""
    return json.dumps(value, separators=(",", ":")).encode()
