"""Every error that duly raises on purpose; `DulyError` is the root of them."""

from __future__ import annotations

from duly.core.errors import (
    DulyError,
    EgressRefused,
    InProgress,
    JobsPending,
    LeaseLost,
    NotJoinable,
    NotStorable,
    Rejected,
    SchemaMismatch,
    StaleSnapshot,
    StoreRefused,
    StoreUnavailable,
    SyncAsyncMismatch,
    UnsafeStore,
    UsageError,
)

__all__ = [
    "DulyError",
    "EgressRefused",
    "InProgress",
    "JobsPending",
    "LeaseLost",
    "NotJoinable",
    "NotStorable",
    "Rejected",
    "SchemaMismatch",
    "StaleSnapshot",
    "StoreRefused",
    "StoreUnavailable",
    "SyncAsyncMismatch",
    "UnsafeStore",
    "UsageError",
]
