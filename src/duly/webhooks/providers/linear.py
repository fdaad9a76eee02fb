"""Linear: HMAC over the body, which itself says when it was sent."""

from datetime import timedelta

from duly.webhooks.provider import Provider
from duly.webhooks.schemes.hmac import Hmac

PROVIDER = Provider(
    "linear",
    scheme=Hmac(header="Linear-Signature"),
    id="header:Linear-Delivery",
    type="body:type + body:action?",
    time="body:createdAt",
    version="body:data.updatedAt | body:createdAt",
    sent_at="body:webhookTimestamp",
    id_stable=None,
    # Retries carry the time of the first attempt: Linear's one minute would refuse all of them.
    tolerance=timedelta(hours=7, minutes=6),
    ack_timeout=timedelta(seconds=5),
    retry_horizon=timedelta(hours=7, minutes=1),
    title="Linear",
    docs="https://linear.app/developers/webhooks#securing-webhooks",
    notes=(
        "Retries come after 1 minute, 1 hour and 6 hours, byte for byte, so the time in the body "
        "is checked against those; Linear's own advice of one minute would refuse every retry. "
        "Linear wants status 200."
    ),
    sample=(
        b'{"action":"create","type":"Issue","createdAt":"2026-01-01T00:00:00.000Z",'
        b'"data":{"id":"i_1","updatedAt":"2026-01-01T00:00:00.000Z"},'
        b'"webhookTimestamp":1767225600000,"webhookId":"w_1"}'
    ),
)
