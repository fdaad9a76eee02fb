"""squareup: `verify_signature` verifies; it cannot sign, so HMAC is written out here."""

from __future__ import annotations

import base64
import hmac

from square.utils.webhooks_helper import verify_signature

from duly.webhooks import Signed
from tests.webhooks.peers.peer import TEXT_BODIES, TEXT_KEYS, Keys, Request, Usual, only

SIGNATURE = "x-square-hmacsha256-signature"


class Square(Usual):
    name = "squareup"
    provider = "square"
    signer = only("square")
    keys = TEXT_KEYS
    bodies = TEXT_BODIES.filter(bool)  # it takes text, and refuses an empty one unseen
    signs_the_url = True

    def signs(self, request: Request, keys: Keys) -> Signed:
        content = request.url.encode() + request.body
        signature = hmac.digest(keys.signing.encode(), content, "sha256")
        headers = {SIGNATURE: base64.b64encode(signature).decode()}
        return Signed(headers, request.body, request.url, "POST")

    def accepts(self, delivery: Signed, keys: Keys, moment: int) -> bool:
        assert delivery.url is not None
        try:
            return verify_signature(
                request_body=delivery.body.decode(),
                signature_header=delivery.headers[SIGNATURE],
                signature_key=keys.verifying,
                notification_url=delivery.url,
            )
        except UnicodeDecodeError:
            return False
