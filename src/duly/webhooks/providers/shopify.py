"""Shopify: HMAC over the body; the ids, the topic and the time are headers, and not signed."""

from datetime import timedelta

from duly.webhooks.provider import Provider
from duly.webhooks.schemes.hmac import Hmac

PROVIDER = Provider(
    "shopify",
    scheme=Hmac(
        header="X-Shopify-Hmac-Sha256",
        aliases=("Shopify-Hmac-Sha256",),
        encoding="base64",
    ),
    id=(
        "header:X-Shopify-Webhook-Id | header:Shopify-Webhook-Id"
        " | header:X-Shopify-Event-Id + header:X-Shopify-Topic"
    ),
    type="header:X-Shopify-Topic | header:Shopify-Topic",
    time="header:X-Shopify-Triggered-At | header:Shopify-Triggered-At | body:updated_at",
    version="body:updated_at",
    ack_timeout=timedelta(seconds=5),
    retry_horizon=timedelta(days=1),
    title="Shopify",
    docs="https://shopify.dev/docs/apps/build/webhooks/verify-deliveries",
    notes=(
        "One action of a merchant can reach an endpoint several times, for several topics, under "
        "one X-Shopify-Event-Id; X-Shopify-Webhook-Id names the delivery and stays on retries. "
        "Eight retries within 4 hours; deliveries up to a day late have been seen. Two topics may "
        "send the same bytes: give each topic a source of its own, or replayed_body='process'."
    ),
    sample=b'{"id":820982911946154508,"updated_at":"2026-01-01T00:00:00Z","total_price":"20.00"}',
)
