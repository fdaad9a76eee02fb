"""The transaction that a handler works in, sync and async.

What a handler writes through it stays or goes with the claim of its event. Ending it is not the
handler's to do: return to commit, raise to roll back.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from duly.core.defaults import ORDER_SCOPE
from duly.core.errors import LeaseLost, UsageError
from duly.core.exports import export, show_keywords
from duly.core.onestep import finish
from duly.jobs.enqueue import enqueue, enqueue_many
from duly.jobs.options import EnqueueManyOptions, EnqueueOptions
from duly.jobs.registry import JobRegistry
from duly.jobs.unawaited import AwaitTracker
from duly.ledger import order_guard
from duly.ledger.arguments import version_advance
from duly.outbox.message import stage
from duly.outbox.options import SendOptions
from duly.outbox.registry import OutboxRegistry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator
    from typing import Unpack

    # Type checkers know it without its package being installed.
    from typing_extensions import TypeVar as TypeVarWithDefault

    from duly.core.json_bytes import Storable
    from duly.core.session import OpenedTransaction, Rows, Session
    from duly.core.versions import Tie, Version
    from duly.jobs.enqueue import Enqueued
    from duly.jobs.foreign_types import AsyncOrmSession, OrmSession
    from duly.jobs.registry import Registries
    from duly.outbox.message import Staged

    S_co = TypeVarWithDefault("S_co", default=OrmSession, covariant=True)
    AsyncS_co = TypeVarWithDefault("AsyncS_co", default=AsyncOrmSession, covariant=True)
else:
    S_co = TypeVar("S_co", covariant=True)
    AsyncS_co = TypeVar("AsyncS_co", covariant=True)

# What runs in an open transaction of duly's, such as "handler ship".
RUNNING_CODE: ContextVar[str | None] = ContextVar("duly_running_code", default=None)
ENDINGS = ("commit", "rollback", "close")
# A statement that begins or ends a transaction, behind any comments.
ENDS = re.compile(
    r"\s*(?:(?:--[^\n]*\n|/\*[^*]*(?:\*(?!/)[^*]*)*\*/)\s*)*"
    r"(?:commit|end|abort|begin|start\s+transaction|prepare\s+transaction|rollback(?!\s.*\bto\b))\b",
    re.IGNORECASE | re.DOTALL,
)


class BaseTx(Generic[S_co]):
    """What `Tx` and `AsyncTx` have in common."""

    # What was asked for and must be awaited; sync calls need none.
    _tracker: AwaitTracker | None = None

    def __init__(self, opened: OpenedTransaction, registries: Registries) -> None:
        self._opened: OpenedTransaction | None = opened
        self._registries = registries

    @property
    def connection(self) -> Any:
        """The driver's connection, inside the transaction."""
        return self._require_open().connection

    @property
    def session(self) -> S_co:
        """The session of your ORM, where the app has ``begin=``."""
        orm: S_co | None = self._require_open().orm
        if orm is None:
            raise UsageError("tx.session is the session of your ORM: give the app begin=")
        return orm

    def _require_open(self) -> OpenedTransaction:
        opened = self._opened
        if opened is None:
            raise UsageError("this transaction is over: use tx only inside its handler")
        if opened.revocation is not None and opened.revocation.revoked:
            raise LeaseLost(
                "this run took too long, or its lease was lost: what it wrote is rolled back"
            )
        return opened

    def joined(self) -> Session:
        """The session for a verb of the app that was given ``tx=tx``."""
        return self._require_open().session

    @contextmanager
    def lasting(self, code: str) -> Iterator[None]:
        """While the code named so runs: it cannot end the transaction, nor use it afterwards."""
        opened = self._require_open()
        orm = None if opened.orm is opened.connection else opened.orm
        before = RUNNING_CODE.set(code)
        try:
            with refuse_ending(opened.connection), refuse_ending(orm):
                yield
                if self._tracker is not None:
                    self._tracker.refuse_unkept()
        finally:
            self._opened = None
            try:
                RUNNING_CODE.reset(before)
            except ValueError:  # the block is left in another context than it was entered in
                RUNNING_CODE.set(None)


@export
class Tx(BaseTx[S_co]):
    """The transaction of a sync handler."""

    def execute(self, statement: str, /, *unnamed: object, **values: Any) -> Rows:
        """Run a statement with ``:name`` parameters and return its rows."""
        return finish(
            self._require_open().session.execute(checked_statement(statement, unnamed), values)
        )

    def newer(
        self,
        resource: str | bytes,
        version: Version,
        tie: Tie | None = None,
        *,
        scope: str = ORDER_SCOPE,
    ) -> bool:
        """Whether this version is later than any applied to the resource; it is recorded then."""
        return finish(
            order_guard.newer(
                self._require_open().session, version_advance(scope, resource, version, tie)
            )
        )

    @show_keywords(EnqueueOptions, JobRegistry.new)
    def enqueue(
        self,
        job: Callable[..., Any] | str,
        payload: Storable = None,
        **options: Unpack[EnqueueOptions],
    ) -> Enqueued:
        """Enqueue a job that exists if this transaction commits; the options of `Duly.enqueue`."""
        return finish(
            enqueue(
                self._require_open().session, self._registries.jobs.new(job, payload, **options)
            )
        )

    @show_keywords(EnqueueManyOptions, JobRegistry.new)
    def enqueue_many(
        self,
        job: Callable[..., Any] | str,
        payloads: Iterable[Storable],
        **options: Unpack[EnqueueManyOptions],
    ) -> list[Enqueued]:
        """Enqueue many jobs of one handler; the options of `Duly.enqueue_many`."""
        jobs = self._registries.jobs.new_many(job, payloads, **options)
        return finish(enqueue_many(self._require_open().session, jobs))

    @show_keywords(SendOptions, OutboxRegistry.new)
    def send(self, url: str, **options: Unpack[SendOptions]) -> Staged:
        """Stage a message that is sent if this transaction commits; the options of `Duly.send`."""
        return finish(
            stage(self._require_open().session, self._registries.outbox.new(url, **options))
        )


class AsyncTx(BaseTx[AsyncS_co]):
    """The transaction of an async handler."""

    def __init__(self, opened: OpenedTransaction, registries: Registries) -> None:
        super().__init__(opened, registries)
        self._tracker: AwaitTracker = AwaitTracker()

    def execute(self, statement: str, /, *unnamed: object, **values: Any) -> Awaitable[Rows]:
        """Run a statement with ``:name`` parameters and return its rows."""
        return self._tracker.track(
            "tx.execute",
            self._require_open().session.execute(checked_statement(statement, unnamed), values),
        )

    def newer(
        self,
        resource: str | bytes,
        version: Version,
        tie: Tie | None = None,
        *,
        scope: str = ORDER_SCOPE,
    ) -> Awaitable[bool]:
        """Whether this version is later than any applied to the resource; it is recorded then."""
        return self._tracker.track(
            "tx.newer",
            order_guard.newer(
                self._require_open().session, version_advance(scope, resource, version, tie)
            ),
        )

    @show_keywords(EnqueueOptions, JobRegistry.new)
    def enqueue(
        self,
        job: Callable[..., Any] | str,
        payload: Storable = None,
        **options: Unpack[EnqueueOptions],
    ) -> Awaitable[Enqueued]:
        """Enqueue a job that exists if this transaction commits; the options of `Duly.enqueue`."""
        return self._tracker.track(
            "tx.enqueue",
            enqueue(
                self._require_open().session, self._registries.jobs.new(job, payload, **options)
            ),
        )

    @show_keywords(EnqueueManyOptions, JobRegistry.new)
    def enqueue_many(
        self,
        job: Callable[..., Any] | str,
        payloads: Iterable[Storable],
        **options: Unpack[EnqueueManyOptions],
    ) -> Awaitable[list[Enqueued]]:
        """Enqueue many jobs of one handler; the options of `Duly.enqueue_many`."""
        jobs = self._registries.jobs.new_many(job, payloads, **options)
        return self._tracker.track(
            "tx.enqueue_many", enqueue_many(self._require_open().session, jobs)
        )

    @show_keywords(SendOptions, OutboxRegistry.new)
    def send(self, url: str, **options: Unpack[SendOptions]) -> Awaitable[Staged]:
        """Stage a message that is sent if this transaction commits; the options of `Duly.send`."""
        message = self._registries.outbox.new(url, **options)
        return self._tracker.track("tx.send", stage(self._require_open().session, message))


def checked_statement(statement: object, unnamed: tuple[object, ...] = ()) -> str:
    """One statement as text; its values have names."""
    if not isinstance(statement, str) or unnamed:
        raise UsageError(
            "tx.execute takes SQL as text, and its values by name: "
            'tx.execute("… WHERE id = :id", id=7)'
        )
    if ENDS.match(statement):
        raise transaction_end_error()
    return statement


def transaction_end_error() -> UsageError:
    """The error of a handler that tries to end its transaction."""
    return UsageError(
        "a handler's transaction is ended by duly: return to commit it together with the end of "
        "its event or job, raise to roll it back"
    )


@contextmanager
def refuse_ending(target: Any) -> Iterator[None]:
    """Refuse commit, rollback and close on a connection or session while a handler has it."""

    def refuse(*_: object, **__: object) -> None:
        raise transaction_end_error()

    kept: list[str] = []
    try:
        for name in ENDINGS if target is not None else ():
            try:
                setattr(target, name, refuse)
            except AttributeError:  # a type of the driver's own; its state is looked at afterwards
                break
            kept.append(name)
        yield
    finally:
        for name in kept:
            delattr(target, name)


def refuse_inside(verb: str, instead: str, would: str = "would be committed") -> None:
    """Refuse a verb that would be committed apart from the transaction that is open around it."""
    code = RUNNING_CODE.get()
    if code is not None:
        raise UsageError(
            f"{verb} inside {code}, whose transaction is open, {would} even if that is rolled "
            f"back: {instead}"
        )
