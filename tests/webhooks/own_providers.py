"""Twenty senders that are not on the shelf, each written as a user of duly would write it."""

from __future__ import annotations

from datetime import timedelta

from duly.webhooks import Hmac, NamedFields, Provider, StandardWebhooks

BOX = Provider(
    "box",
    Hmac(
        header="Box-Signature-Primary",
        encoding="base64",
        signed="{body}{header:Box-Delivery-Timestamp}",
    ),
    id="header:Box-Delivery-Id",
    type="body:trigger",
)
COINBASE_COMMERCE = Provider(
    "coinbase-commerce",
    Hmac(header="X-CC-Webhook-Signature"),
    id="body:event.id",
    type="body:event.type",
    time="body:event.created_at",
)
DROPBOX = Provider("dropbox", Hmac(header="X-Dropbox-Signature"))
FINCH = Provider(
    "finch",
    Hmac(
        header="Finch-Signature",
        prefix="v1,",
        encoding="base64",
        secret="whsec",
        signed="{header:Finch-Event-Id}.{timestamp}.{body}",
        timestamp="Finch-Timestamp",
    ),
    id="header:Finch-Event-Id",
)
GENERIC = Provider("generic", Hmac(header="X-Convoy-Signature", digest="sha512"))
GOCARDLESS = Provider(
    "gocardless",
    Hmac(header="Webhook-Signature"),
    items="events",
    id="body:id",
    type="body:resource_type + body:action",
    time="body:created_at",
)
LINE = Provider(
    "line",
    Hmac(header="X-Line-Signature", encoding="base64"),
    items="events",
    id="body:webhookEventId",
    type="body:type",
    time="body:timestamp",
)
LITHIC = Provider("lithic", StandardWebhooks(), id="header:webhook-id", type="body:event_type")
MODERN_TREASURY = Provider(
    "modern-treasury",
    Hmac(header="X-Signature"),
    id="header:X-Webhook-ID",
    type="body:event",
)
MOLLIE = Provider(
    "mollie",
    Hmac(header="X-Mollie-Signature", prefix="sha256="),
    id="body:id",
    type="body:event_type",
)
NOTION = Provider(
    "notion",
    Hmac(header="X-Notion-Signature", prefix="sha256="),
    id="body:id",
    type="body:type",
    time="body:timestamp",
)
OPENAI = Provider(
    "openai",
    StandardWebhooks(),
    id="header:webhook-id",
    type="body:type",
    time="body:created_at",
)
PAGERDUTY = Provider(
    "pagerduty",
    Hmac(header="X-PagerDuty-Signature", fields=NamedFields(signature="v1")),
    id="body:event.id",
    type="body:event.event_type",
    time="body:event.occurred_at",
)
PLIVO = Provider(
    "plivo",
    Hmac(
        header="X-Plivo-Signature-V2",
        encoding="base64",
        signed="{url}{header:X-Plivo-Signature-V2-Nonce}",
    ),
    id="header:X-Plivo-Signature-V2-Nonce",
)
RAZORPAY = Provider(
    "razorpay",
    Hmac(header="X-Razorpay-Signature"),
    id="header:X-Razorpay-Event-Id",
    type="body:event",
    time="body:created_at",
)
REPLICATE = Provider("replicate", StandardWebhooks(), id="header:webhook-id", type="body:status")
TWITTER = Provider(
    "twitter", Hmac(header="X-Twitter-Webhooks-Signature", prefix="sha256=", encoding="base64")
)
VERCEL = Provider(
    "vercel",
    Hmac(header="X-Vercel-Signature", digest="sha1"),
    id="body:id",
    type="body:type",
    time="body:createdAt",
)
WOOCOMMERCE = Provider(
    "woocommerce",
    Hmac(header="X-WC-Webhook-Signature", encoding="base64"),
    id="header:X-WC-Webhook-Delivery-ID",
    type="header:X-WC-Webhook-Topic",
)
WORKOS = Provider(
    "workos",
    Hmac(
        header="WorkOS-Signature",
        fields=NamedFields(signature="v1", timestamp="t"),
        signed="{timestamp}.{body}",
        unit="ms",
    ),
    id="body:id",
    type="body:event",
    tolerance=timedelta(minutes=3),
)

OWN_PROVIDERS = {
    provider.name: provider for provider in tuple(globals().values()) if type(provider) is Provider
}
