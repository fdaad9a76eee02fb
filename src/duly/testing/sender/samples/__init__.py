"""Sample bodies by event type, where the type of an event decides what its body looks like.

Field names are the providers'; values are made up here, ids in the shape of the provider. The same
seed makes the same body, so that an event sent again is the same byte for byte.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from duly.testing.sender.samples import github, gitlab, shopify, stripe
from duly.testing.sender.samples.seeds import Seed

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from duly.core.json_bytes import Json
    from duly.webhooks.provider import Provider

# The type that is sent unless another is asked for, and what makes the body of any.
MAKERS: dict[str, tuple[str, Callable[[str, Seed], dict[str, Json]]]] = {
    "github": ("pull_request.opened", github.make_body),
    "gitlab": ("Merge Request Hook", gitlab.make_body),
    "shopify": ("orders/updated", shopify.make_body),
    "stripe": ("payment_intent.succeeded", stripe.make_body),
}


def make_sample(provider: Provider, type: str | None, id: str, now: datetime) -> bytes | None:
    """A body of this type; None for a provider whose one sample fits every type.

    Args:
        provider: who sends it.
        type: the type of the event; None for the usual one.
        id: the id of the event, from which all others are derived.
        now: when it happened.
    """
    if provider.name not in MAKERS:
        return None
    usual, make = MAKERS[provider.name]
    return json.dumps(make(type or usual, Seed(id, now)), separators=(",", ":")).encode()
