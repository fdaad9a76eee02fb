"""Discord: Ed25519 over the time and the body, for interactions and for webhook events."""

from datetime import timedelta

from duly.webhooks.handshake import Handshake
from duly.webhooks.provider import Provider
from duly.webhooks.schemes.asymmetric import Ed25519

PROVIDER = Provider(
    "discord",
    scheme=Ed25519(
        header="X-Signature-Ed25519",
        signed="{timestamp}{body}",
        timestamp="X-Signature-Timestamp",
    ),
    id="body:id | body:application_id + body:event.type + body:event.timestamp",
    type="body:event.type | body:type",
    time="body:event.timestamp",
    version="body:event.timestamp | body:id",
    # It is not documented that retries are signed anew: an old time may be a genuine last attempt.
    tolerance=timedelta(minutes=15),
    ack_timeout=timedelta(seconds=3),
    retry_horizon=timedelta(minutes=10),
    success=204,
    reject=401,
    handshakes=(
        Handshake(when={"body:type": 1}, unless="body:event", reply={"type": 1}),
        Handshake(when={"body:type": 0}, unless="body:event", status=204),
    ),
    title="Discord",
    docs=(
        "https://docs.discord.com/developers/interactions/overview"
        "#setting-up-an-endpoint-validating-security-request-headers"
    ),
    notes=(
        "The key is the application's public key, in hex. Discord sends wrong signatures on "
        "purpose and takes the URL away unless they are answered with 401. Interactions want "
        "their answer within 3 seconds and are not sent again."
    ),
    sample=(
        b'{"version":1,"application_id":"1","type":1,"event":{"type":"APPLICATION_AUTHORIZED",'
        b'"timestamp":"2026-01-01T00:00:00.000000Z","data":{"user":{"id":"2"}}}}'
    ),
)
