"""GitHub: HMAC over the body; neither the delivery's id nor a time is signed."""

from datetime import timedelta

from duly.webhooks.provider import Provider
from duly.webhooks.schemes.hmac import Hmac

PROVIDER = Provider(
    "github",
    scheme=(
        Hmac(header="X-Hub-Signature-256", prefix="sha256="),
        Hmac(
            header="X-Hub-Signature",
            digest=("sha256", "sha512", "sha1"),
            prefix="{digest}=",
            legacy=True,
        ),
    ),
    id="header:X-GitHub-Delivery",
    type="header:X-GitHub-Event + body:action?",
    form_json="payload",
    ack_timeout=timedelta(seconds=10),
    retry_horizon=timedelta(0),
    title="GitHub",
    docs="https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries",
    notes=(
        "GitHub sends nothing again by itself; a delivery that a person redelivers keeps its id. "
        "The older X-Hub-Signature counts only where X-Hub-Signature-256 is missing. All hooks "
        "that one event reaches share the id: give each hook a source of its own."
    ),
    sample=b'{"action":"opened","number":1,"pull_request":{"id":1,"state":"open"}}',
)
