"""Stripe: HMAC over the time and the body; every attempt is signed anew."""

from datetime import timedelta

from duly.webhooks.provider import Provider
from duly.webhooks.schemes.hmac import Hmac
from duly.webhooks.schemes.signature import NamedFields

PROVIDER = Provider(
    "stripe",
    scheme=Hmac(
        header="Stripe-Signature",
        fields=NamedFields(signature="v1", timestamp="t"),
        signed="{timestamp}.{body}",
    ),
    id="body:id",
    type="body:type",
    time="body:created",
    version="body:created",
    retry_horizon=timedelta(days=3),
    title="Stripe",
    docs="https://docs.stripe.com/webhooks/signature",
    notes=(
        "The secret is used as it stands, whsec_ included. Times are whole seconds: two events of "
        "one object can have the same. How long Stripe waits for an answer is not published."
    ),
    sample=(
        b'{"id":"evt_1","object":"event","type":"payment_intent.succeeded","created":1767225600,'
        b'"data":{"object":{"id":"pi_1","object":"payment_intent","amount":2000}}}'
    ),
)
