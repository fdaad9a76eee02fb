"""What an application knows and nobody may read, in no log and no error."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from duly.outbox.registry import OutboxRegistry
    from duly.receiver.router import Router
    from duly.stores.store import Store


def texts_to_hide(site: Router, outgoing: OutboxRegistry, store: Store) -> list[str]:
    """The secrets of its sources and signers, and the password of its database."""
    secrets = [text for route in site.routes.values() for text in route.source.texts_to_hide()]
    for signer in outgoing.signers.values():
        secrets += signer.texts_to_hide()
    password = urlsplit(store.url).password
    return secrets if password is None else [*secrets, password, unquote(password)]
