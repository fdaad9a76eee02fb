"""GitLab: Standard Webhooks with a signing token, or a secret token that is only shown."""

from datetime import timedelta

from duly.webhooks.provider import Provider
from duly.webhooks.schemes.shared_token import SharedToken
from duly.webhooks.schemes.standard_webhooks import StandardWebhooks

PROVIDER = Provider(
    "gitlab",
    scheme=(
        StandardWebhooks(must_begin="whsec_"),
        SharedToken(place="header:X-Gitlab-Token", refuse="whsec_", legacy=True),
    ),
    id="header:webhook-id | header:Idempotency-Key",
    type="header:X-Gitlab-Event | body:object_kind",
    time="body:object_attributes.updated_at",
    version="body:object_attributes.updated_at",
    ack_timeout=timedelta(seconds=10),
    retry_horizon=timedelta(0),
    title="GitLab",
    docs="https://docs.gitlab.com/user/project/integrations/webhooks/#signing-tokens",
    notes=(
        "A signing token (whsec_…, GitLab 19.0) signs the body and the id; the older secret token "
        "proves only that the sender knows it. A webhook that a person sends again keeps its "
        "Idempotency-Key. Hooks that keep failing are switched off."
    ),
    sample=(
        b'{"object_kind":"merge_request","object_attributes":{"id":1,'
        b'"updated_at":"2026-01-01T00:00:00Z","action":"open"}}'
    ),
)
