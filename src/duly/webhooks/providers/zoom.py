"""Zoom: HMAC over a version, the time and the body; events have no id of their own."""

from datetime import timedelta

from duly.webhooks.handshake import Echo, Handshake, Mac
from duly.webhooks.provider import Provider
from duly.webhooks.schemes.hmac import Hmac

PROVIDER = Provider(
    "zoom",
    scheme=Hmac(
        header="x-zm-signature",
        prefix="v0=",
        signed="v0:{timestamp}:{body}",
        timestamp="x-zm-request-timestamp",
    ),
    id=(
        "body:event + body:event_ts + body:payload.object.uuid"
        " + body:payload.object.participant.user_id?"
        " + body:payload.object.participant.participant_uuid?"
        " + body:payload.object.registrant.id?"
    ),
    type="body:event",
    time="body:event_ts",
    version="body:event_ts",
    # Zoom does not say that retries are signed anew: an old time may be a genuine last attempt.
    tolerance=timedelta(minutes=90),
    ack_timeout=timedelta(seconds=3),
    retry_horizon=timedelta(minutes=85),
    handshakes=(
        Handshake(
            when={"body:event": "endpoint.url_validation"},
            reply={
                "plainToken": Echo("body:payload.plainToken"),
                "encryptedToken": Mac("body:payload.plainToken"),
            },
        ),
    ),
    title="Zoom",
    docs="https://developers.zoom.us/docs/api/webhooks/#verify-webhook-events",
    notes=(
        "The event, its time and the object together are the id. Retries come after 5, 20 and 60 "
        "minutes. Zoom repeats its URL validation every 72 hours."
    ),
    sample=(
        b'{"event":"meeting.started","event_ts":1767225600000,'
        b'"payload":{"account_id":"a","object":{"id":"1","uuid":"u1"}}}'
    ),
)
