"""Standard Webhooks: the specification that many senders follow, v1 and v1a."""

from datetime import timedelta

from duly.webhooks.provider import Provider
from duly.webhooks.schemes.standard_webhooks import StandardWebhooks

PROVIDER = Provider(
    "standard-webhooks",
    scheme=StandardWebhooks(),
    id="header:webhook-id",
    type="body:type",
    time="body:timestamp",
    version="body:timestamp",
    ack_timeout=timedelta(seconds=15),
    retry_horizon=timedelta(hours=75, minutes=35, seconds=5),
    title="Standard Webhooks",
    docs=(
        "https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md"
    ),
    notes=(
        "Secrets are whsec_ and base64 (v1), public keys whpk_ and base64 (v1a), and both can be "
        "given at once. The specification's example retries for more than 75 hours, and asks "
        "senders to wait 15 to 30 seconds for an answer."
    ),
    sample=(b'{"type":"invoice.paid","timestamp":"2026-01-01T00:00:00Z","data":{"id":"in_1"}}'),
)
