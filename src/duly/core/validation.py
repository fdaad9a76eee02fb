"""What a caller passed, checked once: wrong types, empty and over-long values end here.

Each function either returns a value the ledger can trust or raises `UsageError` with a message that
says what to pass instead. Nothing has been written when it raises.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice
from uuid import UUID

from duly.core.clock import MICROSECOND, Clock, to_microseconds
from duly.core.defaults import LONGEST
from duly.core.errors import UsageError
from duly.core.keys import Key, as_bytes, fingerprint, key_of

SCOPE_BYTES = 255
KEY_BYTES = 1024 * 1024
# One statement carries the whole batch; larger ones hold their locks for too long.
BATCH = 10_000


def checked_scope(scope: object) -> str:
    """A scope: short, printable text that a person chose."""
    if not isinstance(scope, str):
        raise UsageError(f"scope must be a string, not {kind(scope)}")
    return checked_scope_text(scope)


@lru_cache(maxsize=1024)
def checked_scope_text(scope: str) -> str:
    """The same for text; an application has few scopes, and asks for them again and again."""
    try:
        size = len(scope.encode())
    except UnicodeEncodeError as problem:
        raise UsageError("scope holds a lone surrogate, which no database can store") from problem
    if not 1 <= size <= SCOPE_BYTES:
        raise UsageError(f"scope must have 1 to {SCOPE_BYTES} bytes, this one has {size}")
    if not scope.isprintable():
        raise UsageError("scope must be printable text: no line breaks, NULs or control characters")
    return scope


def checked_key(scope: object, key: object, *, what: str = "key") -> Key:
    """A key of any content, from 1 byte to 1 MB, inside a scope."""
    trusted_scope = checked_scope(scope)
    if not isinstance(key, str | bytes):
        raise UsageError(f"{what} must be a string or bytes, not {kind(key)}: {remedy(what, key)}")
    raw = as_bytes(key)
    if not 1 <= len(raw) <= KEY_BYTES:
        raise UsageError(f"{what} must have 1 to {KEY_BYTES:,} bytes, this one has {len(raw):,}")
    return key_of(trusted_scope, raw)


def checked_keys(scope: object, keys: object) -> list[Key]:
    """A batch of keys, in the caller's order, repeats included."""
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise UsageError(f"keys must be a list of strings or bytes, not {kind(keys)}")
    batch = [checked_key(scope, key) for key in islice(keys, BATCH + 1)]  # it may never end
    if len(batch) > BATCH:
        raise UsageError(f"a batch has at most {BATCH:,} keys, this one has more: split it")
    return batch


def checked_body(body: object) -> bytes | None:
    """The fingerprint of a body, or None where the caller gave none."""
    if body is None:
        return None
    if not isinstance(body, bytes | bytearray | memoryview):
        raise UsageError(f"body must be the raw bytes as they arrived, not {kind(body)}")
    return fingerprint(bytes(body))


def checked_duration(what: str, value: object, *, least: timedelta = MICROSECOND) -> int:
    """A duration in whole microseconds."""
    if not isinstance(value, timedelta):
        raise UsageError(
            f"{what} must be a datetime.timedelta, not {kind(value)}: write timedelta(seconds=30) "
            "or timedelta(days=30)"
        )
    if not least <= value <= LONGEST:
        raise UsageError(f"{what} must be between {least} and {LONGEST.days} days, not {value}")
    return value // MICROSECOND


def checked_start(delay: object, at: object) -> tuple[int, int | None]:
    """When a job may run, or a message be sent: after a while, or at a time."""
    if delay is not None and at is not None:
        raise UsageError("give delay= or at=, not both")
    if at is None:
        wait = 0 if delay is None else checked_duration("delay", delay, least=timedelta(0))
        return wait, None
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise UsageError("at must be an aware datetime: datetime(2030, 1, 1, tzinfo=UTC)")
    return 0, to_microseconds(at)


def checked_ttl(ttl: object) -> int | None:
    """How long a claim is remembered; None is for ever."""
    return None if ttl is None else checked_duration("ttl", ttl)


def checked_wait(wait: object) -> timedelta | None:
    """How long to wait for a concurrent holder of the key."""
    if wait is not None:
        checked_duration("wait", wait, least=timedelta(0))
    return wait if isinstance(wait, timedelta) else None


def checked_clock(clock: object) -> Clock | None:
    """A function that returns an aware datetime, for tests; None is the store's own time."""
    if clock is None:
        return None
    if not callable(clock):
        raise UsageError(
            f"clock must be a function that returns an aware datetime, not {kind(clock)}"
        )

    def read_clock() -> datetime:
        moment = clock()
        if not isinstance(moment, datetime):
            raise UsageError(f"clock must return an aware datetime, it returned {kind(moment)}")
        return moment

    return read_clock


def checked_count(what: str, value: object, *, most: int) -> int:
    """A whole number of at least one."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise UsageError(f"{what} must be a whole number from 1 to {most:,}")
    return value


def checked_work(work: object, *, awaited: str | None = None) -> Callable[[], object]:
    """The function that `fence` runs; ``awaited`` names the twin to use for an async one."""
    if not callable(work):
        raise UsageError(f"work must be a function without arguments, not {kind(work)}")
    if awaited is not None and inspect.iscoroutinefunction(work):
        raise UsageError(f"work is an async function: use {awaited}")
    return work


def remedy(what: str, key: object) -> str:
    """What to do about a key that is no key. None as text would make one key of all without."""
    if key is None:
        return "this event has no id, so refuse it, or build a key from what it says"
    if isinstance(key, int | UUID):
        return f"write str({what})"
    return "the order is target, scope, key"


def kind(value: object) -> str:
    """The type of a value, as a person would say it."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
