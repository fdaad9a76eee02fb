"""A provider of the user's own around any scheme, to try the scheme alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly import Provider
from duly.errors import Rejected
from tests.webhooks.genuine import NOW, URL

if TYPE_CHECKING:
    from duly.types import VerifiedDelivery
    from duly.webhooks import Code

SECRET = "a shared secret"
BODY = b'{"id":"a"}'


def provider(scheme: Any, **options: Any) -> Provider:
    """The fewest lines that make a provider."""
    return Provider("own", scheme, id="body:id", **options)


def taken(scheme: Any, headers: Any, secret: Any = SECRET, **told: Any) -> VerifiedDelivery:
    """What the gate makes of a delivery that is signed with this scheme."""
    arguments: dict[str, Any] = {"body": BODY, "now": NOW, "url": URL}
    return duly.verify(provider(scheme), headers, secrets=secret, **(arguments | told))


def rejected(code: Code, scheme: Any, headers: Any, secret: Any = SECRET, **told: Any) -> None:
    """The gate refuses it, with this code."""
    with pytest.raises(Rejected) as caught:
        taken(scheme, headers, secret, **told)
    assert caught.value.code is code, caught.value
