"""SendGrid: ECDSA over the time and the body; one delivery carries many events."""

from datetime import timedelta

from duly.webhooks.provider import Provider
from duly.webhooks.schemes.asymmetric import Ecdsa

PROVIDER = Provider(
    "sendgrid",
    scheme=Ecdsa(
        header="X-Twilio-Email-Event-Webhook-Signature",
        encoding="base64",
        signed="{timestamp}{body}",
        timestamp="X-Twilio-Email-Event-Webhook-Timestamp",
    ),
    items="",
    id="body:sg_event_id | body:sg_message_id + body:event + body:email + body:timestamp",
    type="body:event",
    time="body:timestamp",
    version="body:timestamp",
    id_stable=None,
    # It is not documented that retries are signed anew: an old time may be a genuine last attempt.
    tolerance=timedelta(hours=24, minutes=5),
    retry_horizon=timedelta(hours=24),
    title="Twilio SendGrid",
    docs=(
        "https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/"
        "getting-started-event-webhook-security-features"
    ),
    notes=(
        "The key is the public key of the settings page, in base64. Bodies have line breaks "
        "between and after the events, which are signed. Some events carry no sg_event_id; then "
        "the message, the event, the address and the time together are the id."
    ),
    sample=(
        b'[{"email":"a@example.com","event":"delivered","sg_event_id":"sg_1",'
        b'"sg_message_id":"m_1","timestamp":1767225600}]\r\n'
    ),
)
