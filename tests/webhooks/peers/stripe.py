"""stripe: `WebhookSignature` signs and verifies."""

from __future__ import annotations

from stripe import SignatureVerificationError, WebhookSignature

from duly.webhooks import Signed
from tests.webhooks.peers.peer import TEXT_BODIES, TEXT_KEYS, Keys, Request, Usual, only


class Stripe(Usual):
    name = "stripe"
    provider = "stripe"
    signer = only("stripe")
    keys = TEXT_KEYS
    bodies = TEXT_BODIES  # it decodes the body as UTF-8 before it computes anything
    reads_the_clock = True

    def signs(self, request: Request, keys: Keys) -> Signed:
        header = WebhookSignature.generate_signature_header(
            request.body.decode(), keys.signing, request.moment
        )
        return Signed({"Stripe-Signature": header}, request.body, None, "POST")

    def accepts(self, delivery: Signed, keys: Keys, moment: int) -> bool:
        header = delivery.headers["Stripe-Signature"]
        try:
            WebhookSignature.verify_header(delivery.body, header, keys.verifying, 300)
        except (SignatureVerificationError, UnicodeDecodeError):
            return False
        return True
