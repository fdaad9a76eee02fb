"""duly makes webhooks and background jobs safe to retry: each event takes effect once.

At-least-once delivery plus idempotent processing is an effectively-once effect. This package holds
the gate that tells genuine deliveries from others, and the ledger that claims their events, for
code that blocks; `duly.aio` holds the verbs of the ledger awaited.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duly import aio
    from duly.app.duly import Duly
    from duly.core.answers import Duplicate, First
    from duly.core.errors import (
        DulyError,
        Held,
        LeaseLost,
        Misuse,
        NotJoinable,
        NotStorable,
        Rejected,
        SchemaMismatch,
        StaleSnapshot,
        StoreRefused,
        StoreUnavailable,
        UnsafeStore,
        WrongColour,
    )
    from duly.core.retry import Backoff, Dead, NotYet, Retry
    from duly.idempotency import dedup, dedup_many, fence, migrate, newer, once, prune
    from duly.inbox.event import Event
    from duly.inbox.forget import Forgotten, StillAtWork
    from duly.jobs.dead import DeadLetter
    from duly.jobs.enqueue import Enqueued
    from duly.jobs.job import Job
    from duly.jobs.stats import Stats
    from duly.jobs.tx import Tx
    from duly.ledger.replay import Replayed
    from duly.outbox.dead import DeadMessage, OutboxMessage
    from duly.outbox.egress import Egress, EgressRefused
    from duly.outbox.message import Message, Staged
    from duly.outbox.stats import OutboxStats
    from duly.relay.stats import Relayed
    from duly.stores.open import store
    from duly.stores.orm.begin import django
    from duly.stores.store import Store
    from duly.webhooks.diagnose.explain import explain
    from duly.webhooks.provider import Provider
    from duly.webhooks.secrets import Secret
    from duly.webhooks.sign import Signed, sign
    from duly.webhooks.source import Source
    from duly.webhooks.verified import Verified
    from duly.webhooks.verify import verify
    from duly.worker.stats import Worked

__version__ = "0.1.0"

# Where each name is written. `import duly` loads none of these modules: each is loaded when one of
# its names is asked for, so that a program pays for the app, the worker, the relay and the gate
# only if it uses them. The imports above tell type checkers the same; tests/repo/test_importing.py
# compares the two.
_NAMES = {
    "duly.core.errors": (
        "DulyError",
        "Held",
        "LeaseLost",
        "Misuse",
        "NotJoinable",
        "NotStorable",
        "Rejected",
        "SchemaMismatch",
        "StaleSnapshot",
        "StoreRefused",
        "StoreUnavailable",
        "UnsafeStore",
        "WrongColour",
    ),
    "duly.core.answers": ("Duplicate", "First"),
    "duly.core.retry": ("Backoff", "Dead", "NotYet", "Retry"),
    "duly.ledger.replay": ("Replayed",),
    "duly.app.duly": ("Duly",),
    "duly.webhooks.diagnose.explain": ("explain",),
    "duly.webhooks.provider": ("Provider",),
    "duly.webhooks.secrets": ("Secret",),
    "duly.webhooks.sign": ("Signed", "sign"),
    "duly.webhooks.source": ("Source",),
    "duly.webhooks.verify": ("verify",),
    "duly.webhooks.verified": ("Verified",),
    "duly.inbox.event": ("Event",),
    "duly.inbox.forget": ("Forgotten", "StillAtWork"),
    "duly.jobs.job": ("Job",),
    "duly.jobs.dead": ("DeadLetter",),
    "duly.jobs.enqueue": ("Enqueued",),
    "duly.jobs.stats": ("Stats",),
    "duly.jobs.tx": ("Tx",),
    "duly.outbox.egress": ("Egress", "EgressRefused"),
    "duly.outbox.dead": ("DeadMessage", "OutboxMessage"),
    "duly.outbox.message": ("Message", "Staged"),
    "duly.outbox.stats": ("OutboxStats",),
    "duly.relay.stats": ("Relayed",),
    "duly.worker.stats": ("Worked",),
    "duly.stores.store": ("Store",),
    "duly.stores.orm.begin": ("django",),
    "duly.stores.open": ("store",),
    "duly.idempotency": ("dedup", "dedup_many", "fence", "migrate", "newer", "once", "prune"),
}
# Names that were moved or renamed, and where they are now.
_MOVED = {"assert_effectively_once": "duly.prove.assert_effectively_once"}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Load a public name when it is asked for, and keep it."""
        if name == "aio":
            return import_module("duly.aio")
        if name in _MOVED:
            raise AttributeError(f"duly.{name} is now {_MOVED[name]}: see docs/upgrading.md")
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_MODULES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """The public names, also of what is imported when it is asked for."""
    return sorted([*__all__, "__version__"])


__all__ = [
    "Backoff",
    "Dead",
    "DeadLetter",
    "DeadMessage",
    "Duly",
    "DulyError",
    "Duplicate",
    "Egress",
    "EgressRefused",
    "Enqueued",
    "Event",
    "First",
    "Forgotten",
    "Held",
    "Job",
    "LeaseLost",
    "Message",
    "Misuse",
    "NotJoinable",
    "NotStorable",
    "NotYet",
    "OutboxMessage",
    "OutboxStats",
    "Provider",
    "Rejected",
    "Relayed",
    "Replayed",
    "Retry",
    "SchemaMismatch",
    "Secret",
    "Signed",
    "Source",
    "Staged",
    "StaleSnapshot",
    "Stats",
    "StillAtWork",
    "Store",
    "StoreRefused",
    "StoreUnavailable",
    "Tx",
    "UnsafeStore",
    "Verified",
    "Worked",
    "WrongColour",
    "aio",
    "dedup",
    "dedup_many",
    "django",
    "explain",
    "fence",
    "migrate",
    "newer",
    "once",
    "prune",
    "sign",
    "store",
    "verify",
]
