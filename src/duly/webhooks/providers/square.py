"""Square: HMAC over the notification URL and the body."""

from datetime import timedelta

from duly.webhooks.provider import Provider
from duly.webhooks.schemes.hmac import Hmac

PROVIDER = Provider(
    "square",
    scheme=Hmac(header="x-square-hmacsha256-signature", encoding="base64", signed="{url}{body}"),
    id="body:event_id",
    type="body:type",
    time="body:created_at",
    version="body:created_at",
    ack_timeout=timedelta(seconds=10),
    retry_horizon=timedelta(hours=72),
    title="Square",
    docs="https://developer.squareup.com/docs/webhooks/step3validate",
    notes=(
        "The URL is the one of the subscription, letter by letter: pass url=. Square's page says "
        "that it retries for 24 hours; an older one says 72, which is the safer reading."
    ),
    sample=(
        b'{"merchant_id":"M1","type":"payment.updated","event_id":"ev_1",'
        b'"created_at":"2026-01-01T00:00:00Z","data":{"type":"payment","id":"p_1"}}'
    ),
)
