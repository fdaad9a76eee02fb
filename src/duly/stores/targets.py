"""What a verb is called with: a duly store, the caller's transaction, or the caller's own store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from duly.core.answers import Answer, Duplicate, First
from duly.core.defaults import names
from duly.core.errors import UsageError
from duly.core.validation import checked_clock, kind
from duly.stores.join.recognise import Mode, join, recognise
from duly.stores.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from duly.core.clock import Clock
    from duly.core.session import Session


class JoinOptions(NamedTuple):
    """Where a joined connection finds duly's tables, and the clock of a test."""

    prefix: str | None = None
    schema: str | None = None
    clock: Clock | None = None


NO_OPTIONS = JoinOptions()


def join_transaction(target: object, where: JoinOptions, *, mode: Mode, verb: str) -> Session:
    """A session in the caller's transaction."""
    if isinstance(target, Store):
        raise UsageError(
            f"{verb}(store, ...) needs lease=...: without one, pass the connection whose "
            "transaction the work is in"
        )
    trusted_clock = checked_clock(where.clock)
    found = names(where.prefix, where.schema)
    return join(target, found, trusted_clock, mode=mode, verb=verb)


def as_store(target: object, where: JoinOptions) -> Store | None:
    """The target if it is a store, whose names and clock are its own."""
    if not isinstance(target, Store):
        return None
    if where != NO_OPTIONS:
        raise UsageError("prefix=, schema= and clock= of a store are set once, in duly.store(...)")
    return target


def require_store(target: object, verb: str) -> Store:
    """A store, for the forms that work in transactions of their own."""
    if isinstance(target, Store):
        return target
    raise UsageError(
        f"{verb} works in short transactions of its own and takes a duly.store(...), "
        f"not {kind(target)}"
    )


def leased_store(target: object, where: JoinOptions) -> Store:
    """The store for ``once(lease=…)``, which never takes a transaction."""
    store = as_store(target, where)
    return store if store is not None else require_store(target, "once(lease=...)")


def session_for_mark(tx: object, store: Store, *, mode: Mode, verb: str) -> Session | None:
    """A session in the transaction that marks a claim done, by the store's names; None for none."""
    if tx is None:
        return None
    return join(tx, store.names, store.clock, mode=mode, verb=verb)


def custom_record(target: object) -> Callable[[bytes, timedelta | None], Any] | None:
    """The ``record(digest, ttl) -> bool`` of a store that the user wrote."""
    if recognise(target) is not None:
        return None
    record = getattr(target, "record", None)
    return record if callable(record) else None


def custom_answer(recorded: object) -> Answer:
    """The result of the user's ``record`` as an answer."""
    if recorded is True:
        return First(first_seen=None)
    if recorded is False:
        return Duplicate(first_seen=None)
    raise UsageError(
        "record(digest, ttl) must return True where the digest is new and False where it is known, "
        f"it returned {kind(recorded)}"
    )
