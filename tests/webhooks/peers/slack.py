"""slack_sdk: `SignatureVerifier` signs and verifies, by a clock of our choice."""

from __future__ import annotations

from slack_sdk.signature import Clock, SignatureVerifier

from duly.webhooks import Signed
from tests.webhooks.peers.peer import TEXT_BODIES, TEXT_KEYS, Keys, Request, Usual, only


class Stopped(Clock):
    """A clock that always shows the same time."""

    def __init__(self, moment: int) -> None:
        self.moment = moment

    def now(self) -> float:
        return self.moment


class Slack(Usual):
    name = "slack_sdk"
    provider = "slack"
    signer = only("slack")
    keys = TEXT_KEYS
    bodies = TEXT_BODIES  # it decodes the body as UTF-8 before it computes anything

    def signs(self, request: Request, keys: Keys) -> Signed:
        timestamp = str(request.moment)
        verifier = SignatureVerifier(keys.signing)
        signature = verifier.generate_signature(timestamp=timestamp, body=request.body)
        assert signature is not None
        headers = {"X-Slack-Request-Timestamp": timestamp, "X-Slack-Signature": signature}
        return Signed(headers, request.body, None, "POST")

    def accepts(self, delivery: Signed, keys: Keys, moment: int) -> bool:
        verifier = SignatureVerifier(keys.verifying, Stopped(moment))
        try:
            return verifier.is_valid_request(delivery.body, delivery.headers)
        except UnicodeDecodeError:
            return False
