"""duly makes webhooks and background jobs safe to retry: each event takes effect once.

At-least-once delivery plus idempotent processing is an effectively-once effect. This package holds
the gate that tells genuine deliveries from others, and the ledger that claims their events, for
code that blocks; `duly.aio` holds the verbs of the ledger awaited.
"""

from typing import TYPE_CHECKING, Any

from duly import aio
from duly._kernel.errors import (
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
from duly._kernel.records import Duplicate, First
from duly._kernel.retry import Backoff, Dead, NotYet, Retry
from duly._ledger.replaying import Replayed
from duly.app import Duly
from duly.gate.explaining import explain
from duly.gate.provider import Provider
from duly.gate.secrets import Secret
from duly.gate.signing import Signed, sign
from duly.gate.source import Source
from duly.gate.verification import verify
from duly.gate.verified import Verified
from duly.inbox.events import Event
from duly.inbox.forget import Forgotten, StillAtWork
from duly.jobs.context import Job
from duly.jobs.dead import DeadLetter
from duly.jobs.enqueue import Enqueued
from duly.jobs.stats import Stats
from duly.jobs.tx import Tx
from duly.outbox.egress import Egress, EgressRefused
from duly.outbox.letters import DeadMessage, OutboxMessage
from duly.outbox.messages import Message, Staged
from duly.outbox.stats import OutboxStats
from duly.runtime.relaying.tally import Relayed
from duly.runtime.tally import Worked
from duly.stores.base import Store
from duly.stores.begins import django
from duly.stores.opening import store
from duly.verbs import dedup, dedup_many, fence, migrate, newer, once, prune

__version__ = "0.1.0"

# Tracebacks and help() show where a name is to be imported from.
for _public in (
    *(Duly, Event, Forgotten, Tx, StoreRefused),
    *(DeadLetter, Replayed, Stats),
    *(DeadMessage, Egress, EgressRefused, Message, OutboxMessage, OutboxStats, Relayed, Staged),
    *(Backoff, Dead, Enqueued, Job, NotYet, Retry, Worked),
    *(First, Duplicate, Store, Provider, Secret, Signed, Source, Verified),
    *DulyError.__subclasses__(),
    *Misuse.__subclasses__(),
):
    _public.__module__ = "duly"
DulyError.__module__ = "duly"

if TYPE_CHECKING:
    from duly.tools.proving.asserting import assert_effectively_once
else:

    def __getattr__(name: str) -> Any:
        """What only tests need is imported when it is asked for."""
        if name == "assert_effectively_once":
            from duly.tools.proving.asserting import assert_effectively_once

            return assert_effectively_once
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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
    "assert_effectively_once",
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
