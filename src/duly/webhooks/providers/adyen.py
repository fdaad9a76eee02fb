"""Adyen: HMAC over eight fields inside the body, or over the whole body for platform events."""

from datetime import timedelta

from duly.webhooks.provider import Provider
from duly.webhooks.schemes.hmac import Hmac
from duly.webhooks.schemes.signed_fields import SignedFields

PROVIDER = Provider(
    "adyen",
    scheme=(
        SignedFields(
            items=("notificationItems", "NotificationRequestItem"),
            fields=(
                "pspReference",
                "originalReference",
                "merchantAccountCode",
                "merchantReference",
                "amount.value",
                "amount.currency",
                "eventCode",
                "success",
            ),
            signature="additionalData.hmacSignature",
            free="merchantReference",
            unless="HmacSignature",
        ),
        Hmac(header="HmacSignature", encoding="base64", secret="hex"),
    ),
    items="notificationItems",
    item="NotificationRequestItem",
    # A platform event names only what it is about, and says so again for every state of it.
    id="body:pspReference + body:eventCode + body:success?",
    type="body:eventCode | body:type",
    time="body:eventDate | body:timestamp | body:createdAt",
    version="body:eventDate | body:timestamp",
    ack_timeout=timedelta(seconds=10),
    retry_horizon=timedelta(days=30),
    success=202,
    title="Adyen",
    docs=(
        "https://docs.adyen.com/development-resources/webhooks/secure-webhooks/"
        "verify-hmac-signatures"
    ),
    notes=(
        "The secret is the HMAC key in hex. Only eight fields of a payment notification are "
        "signed: an attacker who repeats it can change eventDate, reason and the rest. Adyen "
        "retries for 30 days, and holds back later events of the endpoint meanwhile."
    ),
    sample=(
        b'{"live":"false","notificationItems":[{"NotificationRequestItem":{"pspReference":"p_1",'
        b'"merchantAccountCode":"Shop","merchantReference":"order-1",'
        b'"amount":{"value":2000,"currency":"EUR"},"eventCode":"AUTHORISATION","success":"true",'
        b'"eventDate":"2026-01-01T00:00:00+00:00"}}]}'
    ),
)
