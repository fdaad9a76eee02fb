"""Standard Webhooks: ``id.timestamp.body``, v1 with a shared secret and v1a with Ed25519.

One header carries several signatures, of both versions, so that keys can be exchanged. Every v1
signature is compared with every shared secret, every v1a one with every public key.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, TypeAlias

from duly.core.errors import Code, Rejected, UsageError
from duly.webhooks.schemes.asymmetric import is_valid_ed25519
from duly.webhooks.schemes.encodings import (
    base64_text,
    decode_signature,
    is_key_file,
    parse_timestamp,
)
from duly.webhooks.schemes.hmac import SharedKey, shared_key
from duly.webhooks.schemes.public_keys import ed25519_private, ed25519_public
from duly.webhooks.schemes.scheme import (
    MOST_CANDIDATES,
    Draft,
    LoadedKey,
    Match,
    Scheme,
    with_key_id,
)
from duly.webhooks.schemes.template import required_header
from duly.webhooks.secrets import starts_with

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from duly.webhooks.delivery import Delivery
    from duly.webhooks.secrets import Secret
    from duly.webhooks.selectors import Selector

EitherKey: TypeAlias = "SharedKey | Ed25519PublicKey"

# Visible ASCII. One that ends like a timestamp would let ``a.1`` + ``2`` pass for ``a`` + ``1.2``.
ID = re.compile(rb"[\x21-\x7e]{1,256}")
ASYMMETRIC = ("whpk_", "whsk_", "-----BEGIN")


@dataclass(frozen=True, slots=True, kw_only=True)
class StandardWebhooks(Scheme[EitherKey]):
    """The scheme of the Standard Webhooks specification, under any prefix of its headers.

    Args:
        prefix: what the names of the three headers begin with.
        key_id: a pattern over the message id whose first group names the key, for sources whose
            keys come from a JWKS document and whose sender tells the key in the id.
        must_begin: what shared secrets begin with, where the provider has others too.
    """

    prefix: str = "webhook-"
    key_id: str | None = None
    must_begin: str = ""
    legacy: bool = False
    id_header: str = field(init=False, repr=False, compare=False)
    time_header: str = field(init=False, repr=False, compare=False)
    signature_header: str = field(init=False, repr=False, compare=False)
    pattern: re.Pattern[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("id", "timestamp", "signature"):
            slot = "time_header" if name == "timestamp" else f"{name}_header"
            object.__setattr__(self, slot, self.prefix.lower() + name)
        object.__setattr__(self, "pattern", compile_key_id(self.key_id))

    def key(self, secret: Secret) -> EitherKey:
        return ed25519_public(secret) if is_asymmetric(secret) else self.v1_key(secret)

    def v1_key(self, secret: Secret) -> SharedKey:
        """The key of v1."""
        if self.must_begin and not starts_with(secret, self.must_begin):
            raise UsageError(f"the secret {secret.name!r} must begin with {self.must_begin}")
        return shared_key(secret, "whsec")

    def only_verifies(self, secret: Secret) -> bool:
        return is_asymmetric(secret) and not starts_with(secret, "whsk_")

    def is_present(self, delivery: Delivery) -> bool:
        return self.signature_header in delivery.fields

    def check(self, delivery: Delivery, keys: Sequence[LoadedKey[EitherKey]]) -> Match:
        header, identifier, timestamp = self.headers(delivery)
        signed_at = parse_timestamp(timestamp, "s")
        if not is_id(identifier):
            raise Rejected(Code.MALFORMED, f"the header {self.id_header} is not an id")
        candidates = candidates_of(header)
        content = b"%b.%b.%b" % (identifier, timestamp, delivery.body)
        fitting = keys if self.pattern is None else self.keys_for_message(identifier, keys)
        found = [
            one.secret.name
            for one in fitting
            if any_signature_matches(one.key, candidates, content)
        ]
        if not found:
            raise Rejected(Code.BAD_SIGNATURE, "no signature matches any secret of this source")
        return found[0], signed_at

    def headers(self, delivery: Delivery) -> tuple[bytes, bytes, bytes]:
        """The signatures, the id and the timestamp, all of them needed."""
        fields = delivery.fields
        try:
            return (
                fields[self.signature_header].encode("latin-1"),  # type: ignore[union-attr]
                fields[self.id_header].encode("latin-1"),  # type: ignore[union-attr]
                fields[self.time_header].encode("latin-1"),  # type: ignore[union-attr]
            )
        except (KeyError, AttributeError, UnicodeEncodeError):
            return self.headers_with_care(delivery)

    def headers_with_care(self, delivery: Delivery) -> tuple[bytes, bytes, bytes]:
        """The same where one is missing, is bytes, or was sent more than once."""
        header = delivery.header_bytes(self.signature_header)
        if header is None:
            raise Rejected(Code.MISSING_SIGNATURE, f"the header {self.signature_header} is missing")
        return (
            header,
            required_header(delivery, self.id_header),
            required_header(delivery, self.time_header),
        )

    def keys_for_message(
        self, identifier: bytes, keys: Sequence[LoadedKey[EitherKey]]
    ) -> Sequence[LoadedKey[EitherKey]]:
        """The keys that this message may be signed with."""
        named = None if self.pattern is None else self.pattern.match(identifier.decode())
        return with_key_id(keys, None if named is None else named.group(1))

    def sign(self, draft: Draft, secret: Secret) -> None:
        if not is_id(draft.id.encode()):
            raise UsageError(
                "id must be 1 to 256 visible characters, not ending in a dot and digits"
            )
        content = b"%b.%d.%b" % (draft.id.encode(), draft.timestamp, draft.body)
        draft.set_header(self.id_header, draft.id)
        draft.set_header(self.time_header, str(draft.timestamp))
        draft.set_header(self.signature_header, self.make_signature(secret, content).decode())

    def make_signature(self, secret: Secret, content: bytes) -> bytes:
        """One signature with its version."""
        if is_asymmetric(secret):
            return b"v1a," + base64_text(ed25519_private(secret).sign(content))
        return b"v1," + base64_text(self.v1_key(secret).mac(content, "sha256"))

    def covers(self, selector: Selector) -> bool:
        if selector.kind == "header":
            return selector.name in (self.id_header, self.time_header)
        return selector.kind in ("body", "form")

    def describe_location(self) -> str:
        return f"the header {self.signature_header}"


def is_id(identifier: bytes) -> bool:
    """Whether an id can be told from the timestamp behind it."""
    if b"." in identifier and identifier.rpartition(b".")[2].isdigit():
        return False
    return ID.fullmatch(identifier) is not None


def candidates_of(header: bytes) -> tuple[list[bytes], list[bytes]]:
    """The signatures of v1 and of v1a; words of other versions or shapes pass."""
    if header.startswith(b"v1,") and b" " not in header:
        return [header[3:]], []
    words = header.split(b" ")
    symmetric = [word[3:] for word in words if word.startswith(b"v1,")]
    edwards = [word[4:] for word in words if word.startswith(b"v1a,")]
    if not symmetric and not edwards:
        raise Rejected(Code.MALFORMED, "no signature of a known version was sent")
    if len(symmetric) + len(edwards) > MOST_CANDIDATES:
        raise Rejected(Code.MALFORMED, f"more than {MOST_CANDIDATES} signatures were sent")
    return symmetric, edwards


def any_signature_matches(
    key: EitherKey, candidates: tuple[list[bytes], list[bytes]], content: bytes
) -> bool:
    """Whether any of the signatures is this key's; all are tried."""
    symmetric, edwards = candidates
    if isinstance(key, SharedKey):
        expected = base64_text(key.mac(content, "sha256"))
        matched = False
        for candidate in symmetric:
            matched |= compare_digest(expected, candidate)
        return matched
    signatures = [decode_signature("base64", one) for one in edwards]
    return any([is_valid_ed25519(key, one, content) for one in signatures if one is not None])


def is_asymmetric(secret: Secret) -> bool:
    """Whether a secret is a key of v1a rather than of v1."""
    value = secret.reveal()
    if isinstance(value, str):
        return value.startswith(ASYMMETRIC)
    return not isinstance(value, bytes) or is_key_file(value)


def compile_key_id(pattern: Any) -> re.Pattern[str] | None:
    """The pattern that finds a key id."""
    if pattern is None:
        return None
    try:
        made = re.compile(pattern)
    except (re.error, TypeError):
        made = None
    if made is None or made.groups < 1:
        raise UsageError("key_id must be a pattern with one group, such as r'(kid_[^.]+)\\.'")
    return made
