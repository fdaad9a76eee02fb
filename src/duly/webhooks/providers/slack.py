"""Slack: HMAC over a version, the time and the body."""

from datetime import timedelta

from duly.webhooks.handshake import Echo, Handshake
from duly.webhooks.provider import Provider
from duly.webhooks.schemes.hmac import Hmac

PROVIDER = Provider(
    "slack",
    scheme=Hmac(
        header="X-Slack-Signature",
        prefix="v0=",
        signed="v0:{timestamp}:{body}",
        timestamp="X-Slack-Request-Timestamp",
    ),
    id="body:event_id | body:trigger_id | form:trigger_id",
    type="body:event.type | body:type | form:command",
    time="body:event_time",
    version="body:event.event_ts | body:event_time",
    form_json="payload",
    ack_timeout=timedelta(seconds=3),
    retry_horizon=timedelta(hours=24),
    handshakes=(
        Handshake(
            when={"body:type": "url_verification"}, reply={"challenge": Echo("body:challenge")}
        ),
    ),
    title="Slack",
    docs="https://api.slack.com/authentication/verifying-requests-from-slack",
    notes=(
        "The first retry comes at once, also while the first attempt is still being answered; "
        "then after 1 and 5 minutes, and with delayed events switched on hourly for a day. Slash "
        "commands and interactions carry a trigger_id instead of an event_id."
    ),
    sample=(
        b'{"type":"event_callback","event_id":"Ev1","event_time":1767225600,'
        b'"event":{"type":"app_mention","event_ts":"1767225600.000100","text":"hello"}}'
    ),
)
