"""shopifyapp: `verify_webhook_req` verifies; it cannot sign, so HMAC is written out here."""

from __future__ import annotations

import base64
import hmac

from shopify_app import ShopifyApp

from duly.webhooks import Signed
from tests.webhooks.peers.peer import TEXT_BODIES, TEXT_KEYS, Keys, Request, Usual, only


class Shopify(Usual):
    name = "shopifyapp"
    provider = "shopify"
    signer = only("shopify")
    keys = TEXT_KEYS
    bodies = TEXT_BODIES  # it takes the body as text

    def signs(self, request: Request, keys: Keys) -> Signed:
        signature = hmac.digest(keys.signing.encode(), request.body, "sha256")
        headers = {"X-Shopify-Hmac-Sha256": base64.b64encode(signature).decode()}
        return Signed(headers, request.body, None, "POST")

    def accepts(self, delivery: Signed, keys: Keys, moment: int) -> bool:
        try:
            body = delivery.body.decode()
        except UnicodeDecodeError:
            return False
        return (
            ShopifyApp("client", keys.verifying)
            .verify_webhook_req(
                {
                    "method": delivery.method,
                    "headers": delivery.headers,
                    "url": delivery.url or "",
                    "body": body,
                }
            )
            .ok
        )
