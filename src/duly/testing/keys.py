"""The secret to sign with. A source with a public key is lent one whose private half is known.

A test cannot have the private key of Discord or SendGrid. While it runs, such a source also accepts
a key pair that is printed below, and forgets it at the end.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.core.errors import UsageError
from duly.core.extras import needs
from duly.testing.sender.provider_delivery import LETTER_OR_DIGIT, change_byte_at
from duly.webhooks import Ecdsa, Ed25519, StandardWebhooks
from duly.webhooks.examples import ECDSA_PRIVATE, ECDSA_PUBLIC, ED25519_PRIVATE, ED25519_PUBLIC
from duly.webhooks.secrets import Secret
from duly.webhooks.sign import fitting_scheme
from duly.webhooks.source import load_keys_by_scheme

if TYPE_CHECKING:
    from datetime import datetime

    from duly.webhooks.schemes.scheme import Scheme
    from duly.webhooks.source import Source

NAME = "duly.testing"


class KeyPair(NamedTuple):
    """A key pair that is no secret."""

    public: Secret
    private: Secret


def pair_for(scheme: Scheme[Any]) -> KeyPair | None:
    """A key pair of the form that a scheme has; None where we have none."""
    match scheme:
        case Ed25519():
            return key_pair(ED25519_PUBLIC, ED25519_PRIVATE)
        case Ecdsa():
            return key_pair(ECDSA_PUBLIC, ECDSA_PRIVATE)
        case StandardWebhooks():
            return key_pair(
                "whpk_" + base64.b64encode(bytes.fromhex(ED25519_PUBLIC)).decode(),
                "whsk_" + base64.b64encode(bytes.fromhex(ED25519_PRIVATE)).decode(),
            )
        case _:
            return None


def private_key(scheme: Scheme[Any]) -> str | None:
    """A new private key of the form that a scheme takes."""
    match scheme:
        case Ed25519():
            return secrets.token_hex(32)
        case StandardWebhooks():
            return "whsk_" + base64.b64encode(secrets.token_bytes(32)).decode()
        case Ecdsa():
            return ecdsa_key()
        case _:
            return None


def ecdsa_key() -> str:
    """A private key as SendGrid's would be written: DER in base64."""
    with needs("crypto", "cryptography"):
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.DER,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return base64.b64encode(key).decode()


def key_pair(public: str, private: str) -> KeyPair:
    """Both halves under a name that says what they are for."""
    return KeyPair(Secret(public, name=NAME), Secret(private, name=NAME))


class SigningKeys:
    """The secrets of an application's sources, as their senders have them."""

    def __init__(self) -> None:
        # What each source that was lent a key was like before.
        self._changed_sources: dict[int, tuple[Source, dict[str, Any]]] = {}

    def signing_secret(self, source: Source, now: datetime) -> Secret:
        """What the sender signs with: the source's first secret that is good, or a lent key."""
        good = [secret for secret in own_secrets(source) if not secret.ended(now.timestamp())]
        shared = [one for one in good if not scheme_of(source, one).only_verifies(one)]
        if shared:
            return shared[0]
        pairs = [pair_for(scheme_of(source, secret)) for secret in good]
        pair = next((one for one in pairs if one is not None), None)
        if pair is None:
            raise UsageError(
                f"source {source.name} holds nothing that signs today: pass the sender's private "
                "key as secret=, and its public half to app.source(…)"
            )
        self._add_test_key(source, pair.public)
        return pair.private

    def unknown_secret(self, source: Source, signer: Secret) -> Secret:
        """A key of the same form that the source does not accept."""
        value, private = signer.reveal(), private_key(scheme_of(source, signer))
        if private is not None and not is_shared(signer):
            return Secret(private)
        if isinstance(value, Mapping):
            raise UsageError("sign with a stranger's key yourself: pass it as secret=")
        raw = value.encode() if isinstance(value, str) else value
        changed = other_secret(raw)
        return Secret(changed.decode() if isinstance(value, str) else changed)

    def _add_test_key(self, source: Source, public: Secret) -> None:
        if id(source) in self._changed_sources:
            return
        more = (*source.secrets, public)
        schemes = load_keys_by_scheme(source.provider, more, legacy=source.legacy)
        changed = {"secrets": more, "schemes": schemes}
        self._changed_sources[id(source)] = (
            source,
            {name: getattr(source, name) for name in changed},
        )
        for name, value in changed.items():
            setattr(source, name, value)

    def _restore_source(self, source: Source) -> None:
        _, before = self._changed_sources.pop(id(source), (source, {}))
        for name, value in before.items():
            setattr(source, name, value)

    def close(self) -> None:
        """Remove the lent keys from every source."""
        for source, _ in list(self._changed_sources.values()):
            self._restore_source(source)


def own_secrets(source: Source) -> list[Secret]:
    """The secrets that the application gave it."""
    return [secret for secret in source.secrets if secret.name != NAME]


def scheme_of(source: Source, secret: Secret) -> Scheme[Any]:
    """How a secret signs."""
    return fitting_scheme(source.provider.schemes, secret)


def is_shared(secret: Secret) -> bool:
    """Whether a secret of Standard Webhooks is of the kind that both sides have."""
    value = secret.reveal()
    return isinstance(value, str) and value.startswith("whsec_")


def other_secret(secret: bytes) -> bytes:
    """Another secret of the same form: one letter or digit near its end is changed."""
    wanted = 2 * len(secret) // 3  # behind any prefix, and before what base64 does not use
    places = [found.start() for found in LETTER_OR_DIGIT.finditer(secret)]
    nearest = min(places, key=lambda place: abs(place - wanted), default=None)
    return secret + b"2" if nearest is None else change_byte_at(secret, nearest)
