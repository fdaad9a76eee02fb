"""duly makes webhooks and background jobs safe to retry: each event takes effect once.

At-least-once delivery plus idempotent processing is an effectively-once effect. This package holds
the ledger behind it, for code that blocks; `duly.aio` holds the same verbs awaited.
"""

from duly import aio
from duly._kernel.errors import (
    DulyError,
    Held,
    LeaseLost,
    Misuse,
    NotJoinable,
    NotStorable,
    SchemaMismatch,
    StaleSnapshot,
    StoreUnavailable,
    UnsafeStore,
    WrongColour,
)
from duly._kernel.records import Duplicate, First
from duly.stores.base import Store
from duly.stores.opening import store
from duly.verbs import dedup, dedup_many, fence, migrate, newer, once, prune

__version__ = "0.1.0"

# Tracebacks and help() show where a name is to be imported from.
for _public in (First, Duplicate, Store, *DulyError.__subclasses__(), *Misuse.__subclasses__()):
    _public.__module__ = "duly"
DulyError.__module__ = "duly"

__all__ = [
    "DulyError",
    "Duplicate",
    "First",
    "Held",
    "LeaseLost",
    "Misuse",
    "NotJoinable",
    "NotStorable",
    "SchemaMismatch",
    "StaleSnapshot",
    "Store",
    "StoreUnavailable",
    "UnsafeStore",
    "WrongColour",
    "aio",
    "dedup",
    "dedup_many",
    "fence",
    "migrate",
    "newer",
    "once",
    "prune",
    "store",
]
