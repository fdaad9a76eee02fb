"""Genuine deliveries to be spoiled, and explanations that must give nothing away."""

from __future__ import annotations

import base64
import re
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

import duly
from duly.webhooks import Jwt, StandardWebhooks, provider_names
from duly.webhooks.diagnose.explain import explain

NOW = 1_767_225_600
URL = "https://shop.example/hooks/in?tenant=canary-query"
RAW = b"canary-secret-0123456789abcdef-x"
WHSEC = "whsec_" + base64.b64encode(RAW).decode()
TEXT = "canary-secret-text-0123456789"
HEX = RAW.hex()
BODY = '{"id":"evt_1","note":"canary-body é/<&>","list":[1,2.5,{"a":null}]}'.encode()
FORM = b"MessageSid=canary-body&Text=a+b%2Fc%C3%A9&Blank="

ED25519 = Ed25519PrivateKey.from_private_bytes(RAW)
ECDSA = generate_private_key(SECP256R1())
ED25519_PUBLIC = ED25519.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
ECDSA_PRIVATE = base64.b64encode(
    ECDSA.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
).decode()
ECDSA_PUBLIC = base64.b64encode(
    ECDSA.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
).decode()

# What the receiver holds, and what the sender signs with where that differs.
HELD = {
    "standard-webhooks": WHSEC,
    "svix": WHSEC,
    "gitlab": WHSEC,
    "adyen": HEX,
    "discord": ED25519_PUBLIC,
    "sendgrid": ECDSA_PUBLIC,
}
SIGNING = {"discord": HEX, "sendgrid": ECDSA_PRIVATE}
CANARIES = ("canary", WHSEC[6:], HEX, ECDSA_PUBLIC[40:80], ED25519_PUBLIC)
# Signed over the raw bytes of the body, whatever else is signed along.
OVER_THE_BODY = sorted(set(provider_names()) - {"adyen", "twilio"})

KEYED = duly.Provider("keyed", StandardWebhooks(key_id=r"([a-z0-9]+)_"))
TOKENS = duly.Provider("tokens", Jwt(header="X-Token", algorithms=("HS256",), body_claim="sha256"))


def source(provider: str, **options: Any) -> duly.Source:
    held = HELD.get(provider, TEXT)
    return duly.Source(provider, {"main": held}, **{"url": URL, **options})


def sent(provider: str, body: bytes = BODY, **options: Any) -> duly.types.Signed:
    secret = SIGNING.get(provider, HELD.get(provider, TEXT))
    return duly.sign(provider, body, secret, **{"url": URL, "now": NOW, "id": "msg_1", **options})


def explained(given: Any, headers: Any, body: bytes, **options: Any) -> str:
    """The explanation, which must be short and give nothing away."""
    sentence = explain(given, headers, body, **{"now": NOW, **options})
    assert not [one for one in CANARIES if one in sentence]
    assert 1 <= len(re.findall(r"[.?](?: |$)", sentence)) <= 2
    assert sentence[0].isupper()
    assert sentence[-1] in ".?"
    assert len(sentence) < 330
    return sentence


def changed(delivery: duly.types.Signed, **headers: str | None) -> dict[str, str]:
    """The headers of a delivery with some of them changed or taken away."""
    fields = {name.lower(): value for name, value in delivery.headers.items()}
    for name, value in headers.items():
        fields.pop(name.replace("_", "-"), None)
        if value is not None:
            fields[name.replace("_", "-")] = value
    return fields
