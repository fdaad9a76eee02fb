"""What duly's verbs return: values to read, to annotate with, and never to make."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duly.inbox.forget import Forgotten
    from duly.jobs.dead import DeadLetter
    from duly.jobs.enqueue import Enqueued
    from duly.jobs.stats import Stats
    from duly.ledger.replay import Replayed
    from duly.outbox.dead import DeadMessage, OutboxMessage
    from duly.outbox.message import Message, Staged
    from duly.outbox.stats import OutboxStats
    from duly.relay.stats import Relayed
    from duly.stores.store import Store
    from duly.webhooks.event_fields import VerifiedDelivery
    from duly.webhooks.sign import Signed
    from duly.worker.stats import Worked

# Where each name is written; loaded when it is asked for, as in `duly` itself.
_MODULES = {
    "DeadLetter": "duly.jobs.dead",
    "DeadMessage": "duly.outbox.dead",
    "Enqueued": "duly.jobs.enqueue",
    "Forgotten": "duly.inbox.forget",
    "Message": "duly.outbox.message",
    "OutboxMessage": "duly.outbox.dead",
    "OutboxStats": "duly.outbox.stats",
    "Relayed": "duly.relay.stats",
    "Replayed": "duly.ledger.replay",
    "Signed": "duly.webhooks.sign",
    "Staged": "duly.outbox.message",
    "Stats": "duly.jobs.stats",
    "Store": "duly.stores.store",
    "VerifiedDelivery": "duly.webhooks.event_fields",
    "Worked": "duly.worker.stats",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Load a public name when it is asked for, and keep it."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_MODULES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """The public names, also of what is imported when it is asked for."""
    return sorted(__all__)


__all__ = [
    "DeadLetter",
    "DeadMessage",
    "Enqueued",
    "Forgotten",
    "Message",
    "OutboxMessage",
    "OutboxStats",
    "Relayed",
    "Replayed",
    "Signed",
    "Staged",
    "Stats",
    "Store",
    "VerifiedDelivery",
    "Worked",
]
