"""Every error duly raises: one root, facts that are safe to log, and what to do next.

No message holds a secret or a body. Keys appear as the shortened text that the ledger keeps for
people.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from duly.core.exports import export_error

if TYPE_CHECKING:
    from collections.abc import Callable

# Beside the message, so that only callers read it: a worker or a command has no sender to answer.
FOR_RECEIVERS = "In a receiver: acknowledge nothing, answer 503 and let the sender retry."


@export_error
class DulyError(Exception):
    """The root of every error that duly raises on purpose."""


class Parameter(NamedTuple):
    """A parameter that an error names: in Python ``since=``, in a shell ``--since``."""

    name: str
    value: str = ""

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


@export_error
class UsageError(DulyError):
    """A call that cannot work as written; the message says what to write instead.

    Made of the parts of its message. Those that name parameters are `Parameter`, so that a command
    line can name its own options.
    """

    def __init__(self, *parts: str | Parameter) -> None:
        super().__init__("".join(map(str, parts)))
        self._parts = parts

    def in_words(self, spell: Callable[[Parameter], str]) -> str:
        """The message, with each parameter as ``spell`` writes it."""
        return "".join(spell(one) if isinstance(one, Parameter) else one for one in self._parts)


@export_error
class NotJoinable(UsageError):
    """The object handed over is not a transaction that duly can take part in."""


@export_error
class SyncAsyncMismatch(UsageError):
    """A sync verb was given something that must be awaited, or the reverse."""


@export_error
class NotStorable(UsageError):
    """A result that would not come back from JSON as the value it was."""


@export_error
class EgressRefused(UsageError):
    """A destination that the egress guard does not let out; the message says what would."""


@export_error
class JobsPending(UsageError):
    """The event has a job that is ready or leased: it is processed without being sent again."""


@export_error
class InProgress(DulyError):
    """Another caller is working on this key right now, and the wait for it is over.

    Nothing was claimed. Answer 503 with ``retry_after``, or try again later: the other side will
    either finish (you become a duplicate) or fail (you become first).
    """

    # The lease of the job whose record could not be written because of it: id, token and epoch.
    lease: tuple[str, bytes, int] | None = None

    def __init__(self, message: str, *, retry_after: timedelta = timedelta(seconds=1)) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Code(StrEnum):
    """Why a delivery was rejected, as the word that a reply and a log carry."""

    BAD_SIGNATURE = "BAD_SIGNATURE"
    MALFORMED = "MALFORMED"
    MISSING_SIGNATURE = "MISSING_SIGNATURE"
    STALE_TIMESTAMP = "STALE_TIMESTAMP"
    UNKNOWN_KEY = "UNKNOWN_KEY"

    @property
    def status(self) -> int:
        """The HTTP status to answer with, where the provider asks for no other."""
        return 400 if self is Code.MALFORMED else 403


@export_error
class Rejected(DulyError):
    """A delivery that is not genuine, or cannot be told to be: answer ``status``, store nothing.

    ``code`` is one of `Code`, ``reason`` a sentence that is safe to log: no secret, no body.
    """

    def __init__(self, code: Code, reason: str, *, status: int | None = None) -> None:
        super().__init__(code, reason)  # what a pickle hands back to this constructor
        self.code = code
        self.reason = reason
        self.status = code.status if status is None else status

    def __str__(self) -> str:
        return f"{self.code}: {self.reason}"


@export_error
class LeaseLost(DulyError):
    """The lease ran out and a newer holder has it. Stop: what you do from now on must not count."""

    # Which one, where it is the lease of a job: id, token and epoch.
    lease: tuple[str, bytes, int] | None = None


@export_error
class SchemaMismatch(DulyError):
    """The tables are missing, older or newer than this duly; the message says which way to move."""


@export_error
class StaleSnapshot(DulyError):
    """SQLite cannot write in a transaction whose view of the data is no longer the newest."""


@export_error
class StoreUnavailable(DulyError):
    """The database could not be reached or did not answer. Nothing may be acknowledged."""


@export_error
class StoreRefused(StoreUnavailable):
    """The database is there and refused what was to be written; it would refuse it again."""


@export_error
class UnsafeStore(DulyError):
    """The database is set up so that an acknowledged event could be lost; duly will not start."""
