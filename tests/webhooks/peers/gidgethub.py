"""gidgethub: `validate_event` verifies; GitHub has no Python library of its own that does.

It cannot sign, so HMAC is written out here.
"""

from __future__ import annotations

import hmac
from dataclasses import replace
from typing import cast

from gidgethub import ValidationFailure
from gidgethub.sansio import validate_event

from duly.webhooks import Hmac, Signed, provider_named
from tests.webhooks.peers.peer import RAW_BODIES, TEXT_KEYS, Keys, Request, Usual, only, with_scheme


class GitHub(Usual):
    name = "gidgethub"
    provider = "github"
    header = "X-Hub-Signature-256"
    digest = "sha256"
    signer = only("github", 0)
    keys = TEXT_KEYS
    bodies = RAW_BODIES

    def signs(self, request: Request, keys: Keys) -> Signed:
        signature = hmac.digest(keys.signing.encode(), request.body, self.digest).hex()
        return Signed({self.header: f"{self.digest}={signature}"}, request.body, None, "POST")

    def accepts(self, delivery: Signed, keys: Keys, moment: int) -> bool:
        signature = delivery.headers[self.header]
        try:
            validate_event(delivery.body, signature=signature, secret=keys.verifying)
        except ValidationFailure:
            return False
        return True


class GitHubSha1(GitHub):
    """The older signature, which GitHub still sends beside the other."""

    name = "gidgethub-sha1"
    header = "X-Hub-Signature"
    digest = "sha1"
    signer = with_scheme(
        provider_named("github"),
        replace(cast("Hmac", provider_named("github").schemes[1]), digest="sha1"),
    )
