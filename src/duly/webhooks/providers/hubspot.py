"""HubSpot: HMAC over the method, the URL, the body and the time; one delivery, many events."""

from datetime import timedelta

from duly.webhooks.provider import Provider
from duly.webhooks.schemes.hmac import Hmac, PlainDigest
from duly.webhooks.schemes.template import Template

PROVIDER = Provider(
    "hubspot",
    scheme=(
        Hmac(
            header="X-HubSpot-Signature-v3",
            encoding="base64",
            signed=Template("{method}{url}{body}{timestamp}", unescaped=":/?@!$'()*,;"),
            timestamp="X-HubSpot-Request-Timestamp",
            unit="ms",
        ),
        PlainDigest(
            header="X-HubSpot-Signature",
            signed="{method}{url}{body}",
            only_if=("X-HubSpot-Signature-Version", "v2"),
            legacy=True,
        ),
        PlainDigest(header="X-HubSpot-Signature", signed="{body}", legacy=True),
    ),
    items="",
    id=("body:eventId + body:subscriptionId + body:portalId? + body:objectId? + body:occurredAt"),
    type="body:subscriptionType",
    time="body:occurredAt",
    version="body:occurredAt",
    ack_timeout=timedelta(seconds=5),
    retry_horizon=timedelta(hours=24),
    title="HubSpot",
    docs=(
        "https://developers.hubspot.com/docs/apps/developer-platform/build-apps/authentication/"
        "request-validation"
    ),
    notes=(
        "The URL must be the one that HubSpot called: pass url=. eventId alone is not promised to "
        "be unique, and attemptNumber changes the body from attempt to attempt. The signatures v1 "
        "and v2 carry no time; refuse them with legacy=False where v3 arrives."
    ),
    sample=(
        b'[{"eventId":1,"subscriptionId":2,"portalId":3,"occurredAt":1767225600000,'
        b'"subscriptionType":"contact.creation","attemptNumber":0,"objectId":4}]'
    ),
)
