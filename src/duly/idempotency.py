"""The verbs of the ledger for sync code; `duly.aio` has the same ones awaited.

Each verb checks its arguments, recognises its target, and finishes the one body that sync and
async share.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Generic, TypeVar, cast, overload

from duly.core.defaults import CLAIM_TTL, FENCE_LEASE, ORDER_SCOPE, PRUNE_CHUNK
from duly.core.errors import SyncAsyncMismatch, UsageError
from duly.core.onestep import finish
from duly.core.validation import checked_count, checked_work
from duly.ledger import dedup as dedups
from duly.ledger.arguments import batch_claim_request, claim_request, version_advance
from duly.ledger.claims import prune_committed, prune_joined
from duly.ledger.once import InTransaction, UnderLease
from duly.ledger.order_guard import newer_committed, newer_joined
from duly.ledger.turn import NOT_GIVEN, Turn
from duly.stores.sql.migrations import apply_all
from duly.stores.targets import (
    JoinOptions,
    as_store,
    custom_answer,
    custom_record,
    join_transaction,
    leased_store,
    require_store,
    session_for_mark,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import timedelta
    from types import TracebackType

    from duly.core.answers import Answer
    from duly.core.clock import Clock
    from duly.core.json_bytes import Storable, Stored
    from duly.core.versions import Tie, Version
    from duly.stores.join.protocols import Joinable
    from duly.stores.store import Store

T = TypeVar("T", bound=Turn)


def dedup(
    target: object,
    scope: str,
    key: str | bytes,
    ttl: timedelta | None = CLAIM_TTL,
    *,
    body: bytes | None = None,
    wait: timedelta | None = None,
    prefix: str | None = None,
    schema: str | None = None,
    clock: Clock | None = None,
) -> Answer:
    """Am I the first to see this key? The answer is `First` or `Duplicate`, exactly one `First`.

    In your connection's transaction the claim stays or goes with your own writes. With a
    ``duly.store(...)`` it is committed before this returns: if you then crash before doing the
    work, it is never done, so prefer `once`.

    ``ttl`` is how long the key is remembered, None for ever: longer than the sender may retry.
    ``body`` lets a later duplicate say that its body differs. ``wait`` bounds the wait for a
    concurrent first; when it is over `InProgress` is raised and nothing was claimed.
    """
    asked, where = (
        claim_request(scope, key, ttl, body=body, wait=wait),
        JoinOptions(prefix, schema, clock),
    )
    if (store := as_store(target, where)) is not None:
        return finish(dedups.dedup_committed(store.sync_runner, asked))
    if (record := custom_record(target)) is not None:
        recorded = record(asked.key.digest, ttl)
        return custom_answer(refuse_awaitable(recorded, "duly.aio.dedup"))
    return finish(dedups.dedup(join_transaction(target, where, mode="sync", verb="dedup"), asked))


def dedup_many(
    target: object,
    scope: str,
    keys: Iterable[str | bytes],
    ttl: timedelta | None = CLAIM_TTL,
    *,
    wait: timedelta | None = None,
    prefix: str | None = None,
    schema: str | None = None,
    clock: Clock | None = None,
) -> list[Answer]:
    """`dedup` for a batch: one answer for each key, in the order given, in one transaction.

    A key that is repeated in the batch is first at most once. If `InProgress` is raised, none of
    the batch was claimed. Batches in any order never deadlock with one another.
    """
    asked, where = (
        batch_claim_request(scope, keys, ttl, wait=wait),
        JoinOptions(prefix, schema, clock),
    )
    if (store := as_store(target, where)) is not None:
        return finish(dedups.dedup_many_committed(store.sync_runner, asked))
    return finish(
        dedups.dedup_many(join_transaction(target, where, mode="sync", verb="dedup_many"), asked)
    )


class LeasedTurn(Turn):
    """A turn under a lease: renew it while you work, mark it when you are done."""

    def __init__(self, answer: Answer, form: UnderLease, store: Store) -> None:
        super().__init__(answer)
        self._form = form
        self._store = store

    @property
    def epoch(self) -> int:
        """Grows with every takeover: a receiver that is sent it can refuse an older one."""
        return self._form.lease.epoch

    def mark(self, result: Storable = NOT_GIVEN, *, tx: Joinable | None = None) -> None:
        """End the lease as done, with a result if you have one.

        ``tx`` is your own open transaction: the mark then stays or goes with your last writes.
        Raises `LeaseLost` where a newer holder has the lease; roll your transaction back then.
        """
        self._form.refuse_over()
        self.keep(result)
        session = session_for_mark(tx, self._store, mode="sync", verb="once")
        finish(self._form.mark(self.encoded, session))
        self.seal()

    def renew(self) -> None:
        """Extend the lease by its own length from now, or raise `LeaseLost`."""
        finish(self._form.renew())


class Once(Generic[T]):
    """The context manager behind `once`: enter claims, leaving keeps everything or nothing."""

    def __init__(self, form: InTransaction | UnderLease, turn: Callable[[Answer], T]) -> None:
        self._form = form
        self._make_turn = turn
        self._turn: T | None = None
        self._entered = False

    def __enter__(self) -> T:
        if self._entered:
            raise UsageError("this once(...) was used before: call once again for a new turn")
        self._entered = True
        self._turn = self._make_turn(finish(self._form.enter()))
        return self._turn

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        encoded = None
        if self._turn is not None:
            encoded = self._turn.encoded
            self._turn.seal()
        finish(self._form.leave(error, encoded))


@overload
def once(
    target: object,
    scope: str,
    key: str | bytes,
    ttl: timedelta | None = ...,
    *,
    lease: None = ...,
    body: bytes | None = ...,
    wait: timedelta | None = ...,
    prefix: str | None = ...,
    schema: str | None = ...,
    clock: Clock | None = ...,
) -> Once[Turn]: ...


@overload
def once(
    target: Store,
    scope: str,
    key: str | bytes,
    ttl: timedelta | None = ...,
    *,
    lease: timedelta,
    body: bytes | None = ...,
    wait: timedelta | None = ...,
) -> Once[LeasedTurn]: ...


def once(
    target: object,
    scope: str,
    key: str | bytes,
    ttl: timedelta | None = CLAIM_TTL,
    *,
    lease: timedelta | None = None,
    body: bytes | None = None,
    wait: timedelta | None = None,
    prefix: str | None = None,
    schema: str | None = None,
    clock: Clock | None = None,
) -> Once[Turn] | Once[LeasedTurn]:
    """Take your turn at something that happens one time: ``if turn.first``, do the work.

    In your connection's transaction, claim, work and ``turn.result`` stay or go together, also if
    the body raises and you go on. A concurrent duplicate waits for your COMMIT, then sees the
    result; if you roll back, it is first.

    With ``lease=`` and a ``duly.store(...)`` no transaction is open while you work. If you crash,
    the lease runs out and the next caller takes over; if you were only slow, marking raises
    `LeaseLost`. While the lease lives, others get `InProgress`.
    """
    asked = claim_request(scope, key, ttl, body=body, wait=wait, lease=lease)
    where = JoinOptions(prefix, schema, clock)
    if lease is not None:
        store = leased_store(target, where)
        form = UnderLease(store.sync_runner, asked)
        return Once(form, lambda answer: LeasedTurn(answer, form, store))
    session = join_transaction(target, where, mode="sync", verb="once")
    return Once(InTransaction(session, asked), Turn)


def fence(
    store: Store,
    scope: str,
    key: str | bytes,
    work: Callable[[], Stored],
    *,
    ttl: timedelta | None = CLAIM_TTL,
    lease: timedelta = FENCE_LEASE,
    wait: timedelta | None = None,
) -> Stored:
    """Run ``work`` once and return its result, now and to every later caller.

    An error, a cancellation or an exit inside ``work`` gives the key back, so that the next call
    runs it again. While another caller runs it, `InProgress` is raised.
    """
    run = checked_work(work, awaited="duly.aio.fence")
    with once(require_store(store, "fence"), scope, key, ttl, lease=lease, wait=wait) as turn:
        if turn.first:
            turn.result = cast("Stored", refuse_awaitable(run(), "duly.aio.fence"))
        return cast("Stored", turn.result)


def refuse_awaitable(result: object, twin: str) -> object:
    """A function that only returns a coroutine has not done its work."""
    if inspect.iscoroutine(result):
        result.close()
    if inspect.isawaitable(result):
        raise SyncAsyncMismatch(f"the function returned something to await: use {twin}")
    return result


def newer(
    target: object,
    resource: str | bytes,
    version: Version,
    tie: Tie | None = None,
    *,
    scope: str = ORDER_SCOPE,
    prefix: str | None = None,
    schema: str | None = None,
    clock: Clock | None = None,
) -> bool:
    """Record a resource's version; True if it is later than any applied, else it is stale.

    Versions are 64-bit integers, aware datetimes, or strings compared bytewise; a resource keeps
    its first kind. Equal timestamps apply and equal sequences are skipped, unless ``tie`` says.
    """
    asked, where = (
        version_advance(scope, resource, version, tie),
        JoinOptions(prefix, schema, clock),
    )
    if (store := as_store(target, where)) is not None:
        return finish(newer_committed(store.sync_runner, asked))
    return finish(newer_joined(join_transaction(target, where, mode="sync", verb="newer"), asked))


def prune(
    target: object,
    *,
    limit: int = PRUNE_CHUNK,
    prefix: str | None = None,
    schema: str | None = None,
    clock: Clock | None = None,
) -> int:
    """Delete up to ``limit`` claims whose time is over, and return how many went."""
    checked_count("limit", limit, most=1_000_000)
    where = JoinOptions(prefix, schema, clock)
    if (store := as_store(target, where)) is not None:
        return finish(prune_committed(store.sync_runner, limit))
    return finish(prune_joined(join_transaction(target, where, mode="sync", verb="prune"), limit))


def migrate(target: object, *, prefix: str | None = None, schema: str | None = None) -> list[str]:
    """Bring duly's tables to this version's schema and return what was applied.

    On your own connection it runs in your transaction, as Alembic and Django migrations need it.
    """
    where = JoinOptions(prefix, schema)
    if (store := as_store(target, where)) is not None:
        return store.migrate()
    return finish(apply_all(join_transaction(target, where, mode="sync", verb="migrate")))
