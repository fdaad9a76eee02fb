"""Handlers: found by source and event type, called with the parameters they name."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from duly.core.clock import MICROSECOND
from duly.core.errors import UsageError
from duly.core.functions import Mode, mode_of, requested_parameters
from duly.core.keys import as_bytes
from duly.core.retry import Backoff
from duly.core.validation import kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.jobs.order import Order

PARAMETERS = ("event", "job", "tx")
BULK_PARAMETERS = ("jobs", "tx")
HINT = (
    "a handler's parameters are event, job and tx, by these names; what was enqueued is in "
    "job.payload. (jobs is for @app.job(many=…))"
)
BULK_HINT = (
    "the parameters of a handler with many= are jobs, a list, and tx, by these names: write "
    "def sell(jobs, tx), also where the list has one job"
)
QUEUE = "default"
QUEUE_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
# A failed event handler is retried: the event was acknowledged to its sender.
EVENT_ATTEMPTS = 5
# A plain job may do what must not be done twice; its author can ask for more.
JOB_ATTEMPTS = 1
# Longer than any call that a caller waits for, and short enough that a hung one is noticed.
TIMEOUT = timedelta(minutes=5)
# On SQLite a handler with `tx` keeps every other process from writing.
LOCKING_TIMEOUT = timedelta(seconds=10)
# One transaction holds its locks for all of them, and one bad job costs all of them a second run.
LEAST_IN_BATCH, MOST_IN_BATCH = 2, 1000
# Longer than any provider waits for an answer; copies of the event wait, or come again, meanwhile.
INLINE_TIMEOUT = timedelta(seconds=30)
NAME_BYTES = 200
PATTERN_BYTES = 500


@dataclass(frozen=True, slots=True)
class Handler:
    """A function of the user's, under a name that stays the same from deploy to deploy."""

    name: str
    call: Callable[..., Any]
    wants: frozenset[str]
    mode: Mode
    queue: str = QUEUE
    attempts: int = EVENT_ATTEMPTS
    timeout: int = TIMEOUT // MICROSECOND
    backoff: Backoff = field(default_factory=Backoff)
    # Which resource's versions it applies, newest only; and what asks the source of truth.
    order: Order | None = None
    refetch: Callable[..., Any] | None = None
    # How many jobs it takes at once; None for a handler of one.
    many: int | None = None


def handler_of(call: Any, name: str | None, *, bulk: bool = False) -> Handler:
    """Check a function that is to be a handler; the message says what to write instead."""
    if not callable(call):
        raise UsageError(f"a handler must be a function, not {kind(call)}")
    chosen = getattr(call, "__qualname__", None) if name is None else name
    if not isinstance(chosen, str) or not 1 <= len(as_bytes(chosen)) <= NAME_BYTES:
        raise UsageError(f"a handler's name must be text of 1 to {NAME_BYTES} bytes: give it name=")
    if not chosen.isprintable() or "<" in chosen:
        raise UsageError(
            f"this handler has no lasting name ({chosen!r:.60}): define it at the top of a module, "
            "or give it name="
        )
    what = f"handler {chosen}"
    mode = mode_of(call, what)
    offered, hint = (BULK_PARAMETERS, BULK_HINT) if bulk else (PARAMETERS, HINT)
    wants = requested_parameters(call, offered, what, hint)
    if bulk and len(wants) < len(BULK_PARAMETERS):
        missing = next(one for one in BULK_PARAMETERS if one not in wants)
        raise UsageError(f"{what} has many= and does not ask for {missing!r}: {BULK_HINT}")
    return Handler(chosen, call, wants, mode)


class Handlers:
    """The handlers of one source, in the order in which they were added."""

    def __init__(self) -> None:
        self._entries: list[tuple[str, Handler]] = []
        # Types are few and come again and again; a sender that makes them up must not fill memory.
        self._matching_cached = lru_cache(maxsize=1024)(self._matching)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, pattern: str, handler: Handler) -> None:
        """Have a handler called for events whose type matches."""
        self._entries.append((pattern, handler))
        self._matching_cached.cache_clear()

    def matching(self, event_type: str | None) -> tuple[Handler, ...]:
        """The handlers of a type, each once, however many of its patterns match."""
        if event_type is not None and len(event_type) > PATTERN_BYTES:
            return self._matching(event_type)  # too long to be kept
        return self._matching_cached(event_type)

    @property
    def mode(self) -> Mode:
        """The mode of an inline source's handlers: the same for all of them."""
        return self._entries[0][1].mode if self._entries else "sync"

    def patterns(self) -> tuple[str, ...]:
        """The patterns, in order."""
        return tuple(pattern for pattern, _ in self._entries)

    def all(self) -> tuple[Handler, ...]:
        """Every handler."""
        return tuple(handler for _, handler in self._entries)

    def _matching(self, event_type: str | None) -> tuple[Handler, ...]:
        said = "" if event_type is None else event_type
        found = {
            handler.name: handler
            for pattern, handler in self._entries
            if said == pattern or fnmatchcase(said, pattern)
        }
        return tuple(found.values())


def checked_queue(queue: object) -> str:
    """The name of a queue."""
    if not isinstance(queue, str) or QUEUE_NAME.fullmatch(queue) is None:
        raise UsageError(
            "a queue's name is 1 to 100 letters, digits, dots, hyphens and underscores, such as "
            "'mail'"
        )
    return queue


def checked_pattern(pattern: object) -> str:
    """An event type, or a glob of them."""
    if not isinstance(pattern, str) or not 1 <= len(as_bytes(pattern)) <= PATTERN_BYTES:
        raise UsageError(
            f"a pattern is an event type such as 'invoice.paid', or a glob such as 'invoice.*', of "
            f"at most {PATTERN_BYTES} bytes"
        )
    return pattern
