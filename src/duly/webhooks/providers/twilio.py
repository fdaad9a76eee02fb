"""Twilio: HMAC-SHA1 over the URL and the sorted form; a JSON body is vouched for by the URL."""

from datetime import timedelta

from duly.webhooks.provider import Provider
from duly.webhooks.schemes.hmac import Hmac
from duly.webhooks.schemes.url_and_form import UrlAndForm

PROVIDER = Provider(
    "twilio",
    scheme=Hmac(
        header="X-Twilio-Signature",
        digest=("sha1", "sha256"),
        encoding="base64",
        signed=UrlAndForm(),
    ),
    id=(
        "header:I-Twilio-Idempotency-Token"
        " | form:MessageSid + form:MessageStatus"
        " | form:CallSid + form:CallStatus + form:SequenceNumber"
        " | body:id"
    ),
    type="form:MessageStatus | form:CallStatus | form:EventType | body:type",
    time="form:Timestamp | body:time",
    version="form:SequenceNumber",
    ack_timeout=timedelta(seconds=15),
    retry_horizon=timedelta(minutes=5),
    content_type="application/x-www-form-urlencoded",
    title="Twilio",
    docs="https://www.twilio.com/docs/usage/webhooks/webhooks-security",
    notes=(
        "The secret is the account's auth token, or a shared key (SHA-256). The URL must be the "
        "one that Twilio called, with its query: pass url=. Retries are few unless the URL asks "
        "for them (#rc=)."
    ),
    sample=b"MessageSid=SM1&MessageStatus=delivered&To=%2B15550100",
)
