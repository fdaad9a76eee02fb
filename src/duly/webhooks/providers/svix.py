"""Svix: Standard Webhooks under headers of its own name, or under the common ones."""

from datetime import timedelta

from duly.webhooks.provider import Provider
from duly.webhooks.schemes.standard_webhooks import StandardWebhooks

PROVIDER = Provider(
    "svix",
    scheme=(StandardWebhooks(prefix="svix-"), StandardWebhooks()),
    id="header:svix-id | header:webhook-id",
    type="body:type",
    time="body:timestamp",
    version="body:timestamp",
    ack_timeout=timedelta(seconds=15),
    retry_horizon=timedelta(hours=27, minutes=35, seconds=5),
    title="Svix",
    docs="https://docs.svix.com/receiving/verifying-payloads/how-manual",
    notes="Many services send through Svix; their secrets begin with whsec_.",
    sample=b'{"type":"user.created","timestamp":"2026-01-01T00:00:00Z","data":{"id":"user_1"}}',
)
