"""discord-interactions: `verify_key` verifies; PyNaCl, which it stands on, signs."""

from __future__ import annotations

from discord_interactions import verify_key
from hypothesis import strategies as st
from nacl.signing import SigningKey

from duly.webhooks import Signed
from tests.webhooks.peers.peer import RAW_BODIES, Keys, Request, Usual, only

SIGNATURE = "X-Signature-Ed25519"
TIMESTAMP = "X-Signature-Timestamp"


def pair(seed: bytes) -> Keys:
    """The two halves of a key, in the hex of the developer portal."""
    return Keys(seed.hex(), bytes(SigningKey(seed).verify_key).hex())


class Discord(Usual):
    name = "discord-interactions"
    provider = "discord"
    signer = only("discord")
    keys = st.binary(min_size=32, max_size=32).map(pair)
    bodies = RAW_BODIES

    def signs(self, request: Request, keys: Keys) -> Signed:
        timestamp = str(request.moment)
        key = SigningKey(bytes.fromhex(keys.signing))
        signature = key.sign(timestamp.encode() + request.body).signature.hex()
        headers = {SIGNATURE: signature, TIMESTAMP: timestamp}
        return Signed(headers, request.body, None, "POST")

    def accepts(self, delivery: Signed, keys: Keys, moment: int) -> bool:
        signature, timestamp = delivery.headers[SIGNATURE], delivery.headers[TIMESTAMP]
        return bool(verify_key(delivery.body, signature, timestamp, keys.verifying))
