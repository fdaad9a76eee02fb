"""paddle-python-sdk: `PaddleSignature` computes, `Verifier` verifies."""

from __future__ import annotations

from dataclasses import dataclass

from paddle_billing.Notifications import PaddleSignature, Secret, Verifier

from duly.webhooks import Signed
from tests.webhooks.peers.peer import TEXT_BODIES, TEXT_KEYS, Keys, Request, Usual, only

HEADER = "Paddle-Signature"


@dataclass(frozen=True, slots=True)
class Arrived:
    """A request as the library asks for it: its body and its headers."""

    body: bytes
    headers: dict[str, str]


class Paddle(Usual):
    name = "paddle"
    provider = "paddle"
    signer = only("paddle")
    keys = TEXT_KEYS
    bodies = TEXT_BODIES  # it decodes the body as UTF-8 before it computes anything
    reads_the_clock = True
    # Its own 5 seconds can pass between two lines of a test on a busy machine.
    patience = 300

    def signs(self, request: Request, keys: Keys) -> Signed:
        content = f"{request.moment}:".encode() + request.body
        signature = PaddleSignature.calculate_hmac(keys.signing, content).hexdigest()
        headers = {HEADER: f"ts={request.moment};h1={signature}"}
        return Signed(headers, request.body, None, "POST")

    def accepts(self, delivery: Signed, keys: Keys, moment: int) -> bool:
        arrived = Arrived(delivery.body, delivery.headers)
        try:
            return bool(Verifier(self.patience).verify(arrived, Secret(keys.verifying)))
        except UnicodeDecodeError:
            return False
