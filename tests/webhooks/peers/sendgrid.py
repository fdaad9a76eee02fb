"""sendgrid: `EventWebhook` verifies; it cannot sign, so the key itself does."""

from __future__ import annotations

import base64

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
)
from hypothesis import strategies as st
from sendgrid.helpers.eventwebhook import EventWebhook

from duly.webhooks import Signed
from tests.webhooks.peers.peer import TEXT_BODIES, Keys, Request, Usual, only

SIGNATURE = "X-Twilio-Email-Event-Webhook-Signature"
TIMESTAMP = "X-Twilio-Email-Event-Webhook-Timestamp"


def pair(number: int) -> Keys:
    """The two halves of a key, in the base64 of the settings page."""
    private = ec.derive_private_key(number, ec.SECP256R1())
    signing = private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    verifying = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return Keys(base64.b64encode(signing).decode(), base64.b64encode(verifying).decode())


class SendGrid(Usual):
    name = "sendgrid"
    provider = "sendgrid"
    signer = only("sendgrid")
    keys = st.integers(1, 2**200).map(pair)
    bodies = TEXT_BODIES  # it takes the body as text

    def signs(self, request: Request, keys: Keys) -> Signed:
        timestamp = str(request.moment)
        private = load_der_private_key(base64.b64decode(keys.signing), None)
        assert isinstance(private, ec.EllipticCurvePrivateKey)
        signature = private.sign(timestamp.encode() + request.body, ec.ECDSA(SHA256()))
        headers = {SIGNATURE: base64.b64encode(signature).decode(), TIMESTAMP: timestamp}
        return Signed(headers, request.body, None, "POST")

    def accepts(self, delivery: Signed, keys: Keys, moment: int) -> bool:
        try:
            body = delivery.body.decode()
        except UnicodeDecodeError:
            return False
        signature, timestamp = delivery.headers[SIGNATURE], delivery.headers[TIMESTAMP]
        return bool(EventWebhook(keys.verifying).verify_signature(body, signature, timestamp))
