"""svix: `Webhook` signs and verifies, under headers of its own name."""

from __future__ import annotations

from datetime import UTC, datetime

from svix.webhooks import Webhook, WebhookVerificationError

from duly.webhooks import Signed
from tests.webhooks.peers.peer import TEXT_BODIES, WEBHOOK_KEYS, Keys, Request, Usual, only


class Svix(Usual):
    name = "svix"
    provider = "svix"
    signer = only("svix")
    keys = WEBHOOK_KEYS
    bodies = TEXT_BODIES  # it decodes the body as UTF-8 before it computes anything
    reads_the_clock = True

    def signs(self, request: Request, keys: Keys) -> Signed:
        moment = datetime.fromtimestamp(request.moment, UTC)
        signature = Webhook(keys.signing).sign("msg_1", moment, request.body.decode())
        headers = {
            "svix-id": "msg_1",
            "svix-timestamp": str(request.moment),
            "svix-signature": signature,
        }
        return Signed(headers, request.body, None, "POST")

    def accepts(self, delivery: Signed, keys: Keys, moment: int) -> bool:
        try:
            Webhook(keys.verifying).verify(delivery.body, delivery.headers)
        except (WebhookVerificationError, UnicodeDecodeError):
            return False
        return True
