"""standardwebhooks: `Webhook` signs and verifies; GitLab's signing tokens follow it too."""

from __future__ import annotations

from datetime import UTC, datetime

from standardwebhooks import Webhook, WebhookVerificationError

from duly.webhooks import Signed
from tests.webhooks.peers.peer import TEXT_BODIES, WEBHOOK_KEYS, Keys, Request, Usual, only


class StandardWebhooks(Usual):
    name = "standardwebhooks"
    provider = "standard-webhooks"
    signer = only("standard-webhooks")
    keys = WEBHOOK_KEYS
    bodies = TEXT_BODIES  # it decodes the body as UTF-8 before it computes anything
    reads_the_clock = True

    def signs(self, request: Request, keys: Keys) -> Signed:
        moment = datetime.fromtimestamp(request.moment, UTC)
        signature = Webhook(keys.signing).sign("msg_1", moment, request.body.decode())
        headers = {
            "webhook-id": "msg_1",
            "webhook-timestamp": str(request.moment),
            "webhook-signature": signature,
        }
        return Signed(headers, request.body, None, "POST")

    def accepts(self, delivery: Signed, keys: Keys, moment: int) -> bool:
        try:
            Webhook(keys.verifying).verify(delivery.body, delivery.headers, json_parse=False)
        except (WebhookVerificationError, UnicodeDecodeError):
            return False
        return True


class GitLab(StandardWebhooks):
    """GitLab has no library of its own in Python; its documentation names this one's scheme."""

    name = "standardwebhooks-for-gitlab"
    provider = "gitlab"
    signer = only("gitlab")
