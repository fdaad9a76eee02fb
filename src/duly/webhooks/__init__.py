"""Webhook signatures: verify, sign and explain deliveries of any provider.

Pure functions from raw bytes to a `VerifiedDelivery`, or `Rejected`. Providers are data; the parts
here are what their profiles, and yours, are made of.
"""

from duly.core.errors import Code, Rejected
from duly.webhooks.diagnose.explain import explain
from duly.webhooks.event_fields import EventFields, VerifiedDelivery
from duly.webhooks.handshake import Echo, Handshake, HandshakeReply, Mac
from duly.webhooks.jwks import AsyncKeyset, Keyset, keys_of
from duly.webhooks.provider import Provider
from duly.webhooks.providers import provider_named, provider_names
from duly.webhooks.schemes.asymmetric import Ecdsa, Ed25519
from duly.webhooks.schemes.hmac import Hmac, PlainDigest
from duly.webhooks.schemes.jwt import Jwt
from duly.webhooks.schemes.shared_token import BasicAuth, SharedToken
from duly.webhooks.schemes.signature import NamedFields
from duly.webhooks.schemes.signed_fields import SignedFields
from duly.webhooks.schemes.standard_webhooks import StandardWebhooks
from duly.webhooks.schemes.template import Template
from duly.webhooks.schemes.url_and_form import UrlAndForm
from duly.webhooks.secrets import Secret
from duly.webhooks.sign import Signed, sign
from duly.webhooks.source import Source
from duly.webhooks.strict_json import Limits
from duly.webhooks.verify import answer_handshake, check_signature, verify

__all__ = [
    "AsyncKeyset",
    "BasicAuth",
    "Code",
    "Ecdsa",
    "Echo",
    "Ed25519",
    "EventFields",
    "Handshake",
    "HandshakeReply",
    "Hmac",
    "Jwt",
    "Keyset",
    "Limits",
    "Mac",
    "NamedFields",
    "PlainDigest",
    "Provider",
    "Rejected",
    "Secret",
    "SharedToken",
    "Signed",
    "SignedFields",
    "Source",
    "StandardWebhooks",
    "Template",
    "UrlAndForm",
    "VerifiedDelivery",
    "answer_handshake",
    "check_signature",
    "explain",
    "keys_of",
    "provider_named",
    "provider_names",
    "sign",
    "verify",
]
