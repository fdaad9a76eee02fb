"""The verbs of the ledger, awaited; `duly` itself has the same ones for sync code.

Each verb checks its arguments, recognises its target, and awaits the one body that sync and async
share. What a verb promises is said once, on its twin.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Generic, TypeVar, cast, overload

from duly.core.defaults import CLAIM_TTL, FENCE_LEASE, ORDER_SCOPE, PRUNE_CHUNK
from duly.core.errors import SyncAsyncMismatch, UsageError
from duly.core.validation import checked_count, checked_work
from duly.jobs.job import AsyncJob as Job
from duly.jobs.tx import AsyncTx as Tx
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
    from collections.abc import Awaitable, Callable, Iterable
    from datetime import timedelta
    from types import TracebackType

    from duly.core.answers import Answer
    from duly.core.clock import Clock
    from duly.core.json_bytes import Json, Storable, Stored
    from duly.core.versions import Tie, Version
    from duly.stores.join.protocols import AsyncJoinable
    from duly.stores.store import Store

T = TypeVar("T", bound=Turn)
# The job and the transaction of a handler that is awaited, under their names in a signature.
__all__ = ["Job", "Tx", "dedup", "dedup_many", "fence", "migrate", "newer", "once", "prune"]


async def dedup(
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
    """`duly.dedup`, awaited."""
    asked, where = (
        claim_request(scope, key, ttl, body=body, wait=wait),
        JoinOptions(prefix, schema, clock),
    )
    if (store := as_store(target, where)) is not None:
        return await dedups.dedup_committed(store.async_runner, asked)
    if (record := custom_record(target)) is not None:
        recorded = record(asked.key.digest, ttl)
        return custom_answer(await recorded if inspect.isawaitable(recorded) else recorded)
    return await dedups.dedup(join_transaction(target, where, mode="async", verb="dedup"), asked)


async def dedup_many(
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
    """`duly.dedup_many`, awaited."""
    asked, where = (
        batch_claim_request(scope, keys, ttl, wait=wait),
        JoinOptions(prefix, schema, clock),
    )
    if (store := as_store(target, where)) is not None:
        return await dedups.dedup_many_committed(store.async_runner, asked)
    return await dedups.dedup_many(
        join_transaction(target, where, mode="async", verb="dedup_many"), asked
    )


class AsyncLeasedTurn(Turn):
    """A turn under a lease: renew it while you work, mark it when you are done."""

    def __init__(self, answer: Answer, form: UnderLease, store: Store) -> None:
        super().__init__(answer)
        self._form = form
        self._store = store

    @property
    def epoch(self) -> int:
        """Grows with every takeover: a receiver that is sent it can refuse an older one."""
        return self._form.lease.epoch

    async def mark(self, result: Storable = NOT_GIVEN, *, tx: AsyncJoinable | None = None) -> None:
        """End the lease as done, with a result if you have one.

        ``tx`` is your own open transaction: the mark then stays or goes with your last writes.
        Raises `LeaseLost` where a newer holder has the lease; roll your transaction back then.
        """
        self._form.refuse_over()
        self.keep(result)
        session = session_for_mark(tx, self._store, mode="async", verb="once")
        await self._form.mark(self.encoded, session)
        self.seal()

    async def renew(self) -> None:
        """Extend the lease by its own length from now, or raise `LeaseLost`."""
        await self._form.renew()


class AsyncOnce(Generic[T]):
    """The context manager behind `once`: enter claims, leaving keeps everything or nothing."""

    def __init__(self, form: InTransaction | UnderLease, turn: Callable[[Answer], T]) -> None:
        self._form = form
        self._make_turn = turn
        self._turn: T | None = None
        self._entered = False

    async def __aenter__(self) -> T:
        if self._entered:
            raise UsageError("this once(...) was used before: call once again for a new turn")
        self._entered = True
        self._turn = self._make_turn(await self._form.enter())
        return self._turn

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        encoded = None
        if self._turn is not None:
            encoded = self._turn.encoded
            self._turn.seal()
        await self._form.leave(error, encoded)


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
) -> AsyncOnce[Turn]: ...


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
) -> AsyncOnce[AsyncLeasedTurn]: ...


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
) -> AsyncOnce[Turn] | AsyncOnce[AsyncLeasedTurn]:
    """`duly.once`, for ``async with``."""
    asked = claim_request(scope, key, ttl, body=body, wait=wait, lease=lease)
    where = JoinOptions(prefix, schema, clock)
    if lease is not None:
        store = leased_store(target, where)
        form = UnderLease(store.async_runner, asked)
        return AsyncOnce(form, lambda answer: AsyncLeasedTurn(answer, form, store))
    session = join_transaction(target, where, mode="async", verb="once")
    return AsyncOnce(InTransaction(session, asked), Turn)


async def fence(
    store: Store,
    scope: str,
    key: str | bytes,
    work: Callable[[], Awaitable[Stored]],
    *,
    ttl: timedelta | None = CLAIM_TTL,
    lease: timedelta = FENCE_LEASE,
    wait: timedelta | None = None,
) -> Stored:
    """`duly.fence`, awaited; ``work`` is an async function."""
    run = checked_work(work)
    turns = once(require_store(store, "fence"), scope, key, ttl, lease=lease, wait=wait)
    async with turns as turn:
        if turn.first:
            turn.result = await expect_awaitable(run())
        return cast("Stored", turn.result)


async def expect_awaitable(result: object) -> Json:
    """What an async function returned, once it has done its work."""
    if not inspect.isawaitable(result):
        raise SyncAsyncMismatch("work is not an async function: use duly.fence")
    value: Json = await result
    return value


async def newer(
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
    """`duly.newer`, awaited."""
    asked, where = (
        version_advance(scope, resource, version, tie),
        JoinOptions(prefix, schema, clock),
    )
    if (store := as_store(target, where)) is not None:
        return await newer_committed(store.async_runner, asked)
    return await newer_joined(join_transaction(target, where, mode="async", verb="newer"), asked)


async def prune(
    target: object,
    *,
    limit: int = PRUNE_CHUNK,
    prefix: str | None = None,
    schema: str | None = None,
    clock: Clock | None = None,
) -> int:
    """`duly.prune`, awaited."""
    checked_count("limit", limit, most=1_000_000)
    where = JoinOptions(prefix, schema, clock)
    if (store := as_store(target, where)) is not None:
        return await prune_committed(store.async_runner, limit)
    return await prune_joined(join_transaction(target, where, mode="async", verb="prune"), limit)


async def migrate(
    target: object, *, prefix: str | None = None, schema: str | None = None
) -> list[str]:
    """`duly.migrate`, awaited."""
    where = JoinOptions(prefix, schema)
    if (store := as_store(target, where)) is not None:
        return await asyncio.to_thread(store.migrate)
    return await apply_all(join_transaction(target, where, mode="async", verb="migrate"))
