"""Paddle Billing: HMAC over the time and the body."""

from datetime import timedelta

from duly.webhooks.provider import Provider
from duly.webhooks.schemes.hmac import Hmac
from duly.webhooks.schemes.signature import NamedFields

PROVIDER = Provider(
    "paddle",
    scheme=Hmac(
        header="Paddle-Signature",
        fields=NamedFields(signature="h1", timestamp="ts", separator=";"),
        signed="{timestamp}:{body}",
    ),
    id="body:event_id",
    type="body:event_type",
    time="body:occurred_at",
    version="body:occurred_at",
    tolerance=timedelta(seconds=5),
    ack_timeout=timedelta(seconds=5),
    retry_horizon=timedelta(days=3),
    title="Paddle Billing",
    docs="https://developer.paddle.com/webhooks/about/signature-verification",
    notes=(
        "Paddle's own libraries allow 5 seconds; give the source a longer tolerance if deliveries "
        "wait in a queue of yours first. Paddle wants status 200."
    ),
    sample=(
        b'{"event_id":"evt_1","event_type":"transaction.completed",'
        b'"occurred_at":"2026-01-01T00:00:00.000000Z","notification_id":"ntf_1","data":{"id":"t_1"}}'
    ),
)
