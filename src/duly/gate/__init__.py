"""Stage 2 of 5: is it genuine?

Pure functions from raw bytes to `Verified`, or `Rejected`, and nothing else. Providers are data;
the parts here are what their profiles, and yours, are made of.
"""

from duly.core.errors import Code, Rejected
from duly.gate.explaining import explain
from duly.gate.facts import Facts
from duly.gate.handshakes import Echo, Handshake, Mac, Reply
from duly.gate.keysets import AsyncKeyset, Keyset, keys_of
from duly.gate.provider import Provider
from duly.gate.providers import provider_named, provider_names
from duly.gate.reading import Limits
from duly.gate.schemes.asymmetric import Ecdsa, Ed25519
from duly.gate.schemes.contents import Template
from duly.gate.schemes.jwts import Jwt
from duly.gate.schemes.macs import Hmac, PlainDigest
from duly.gate.schemes.signature import NamedFields
from duly.gate.schemes.signedfields import SignedFields
from duly.gate.schemes.standard import StandardWebhooks
from duly.gate.schemes.tokens import BasicAuth, SharedToken
from duly.gate.schemes.twilio import UrlAndForm
from duly.gate.secrets import Secret
from duly.gate.signing import Signed, sign
from duly.gate.source import Source
from duly.gate.verification import greeted, verify
from duly.gate.verified import Verified

__all__ = [
    "AsyncKeyset",
    "BasicAuth",
    "Code",
    "Ecdsa",
    "Echo",
    "Ed25519",
    "Facts",
    "Handshake",
    "Hmac",
    "Jwt",
    "Keyset",
    "Limits",
    "Mac",
    "NamedFields",
    "PlainDigest",
    "Provider",
    "Rejected",
    "Reply",
    "Secret",
    "SharedToken",
    "Signed",
    "SignedFields",
    "Source",
    "StandardWebhooks",
    "Template",
    "UrlAndForm",
    "Verified",
    "explain",
    "greeted",
    "keys_of",
    "provider_named",
    "provider_names",
    "sign",
    "verify",
]
