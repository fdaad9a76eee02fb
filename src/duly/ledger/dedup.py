"""``dedup``: claim in the caller's transaction, or claim and commit."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from duly.core.errors import InProgress
from duly.ledger.claims import claim, claim_many, unclaim

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Sequence
    from datetime import timedelta

    from duly.core.answers import Answer
    from duly.core.keys import Key
    from duly.core.session import Operation, Runner, Session
    from duly.ledger.arguments import BatchClaimRequest, ClaimRequest
    from duly.ledger.claims import Terms

T = TypeVar("T")
logger = logging.getLogger("duly")


async def dedup(session: Session, asked: ClaimRequest) -> Answer:
    """Claim in the open transaction; a bounded wait costs a savepoint, no bound costs nothing."""
    await session.begin(asked.wait)
    if asked.wait is None:
        return await claim(session, asked.key, asked.terms, fingerprint=asked.fingerprint)
    async with session.savepoint():
        return await claim_bounded(session, asked)


async def claim_bounded(session: Session, asked: ClaimRequest) -> Answer:
    """Claim, waiting for a concurrent holder as long as the caller allows. In a savepoint."""
    if asked.wait is None:
        return await claim(session, asked.key, asked.terms, fingerprint=asked.fingerprint)
    async with session.limit_lock_waits(asked.wait):
        return await claim(session, asked.key, asked.terms, fingerprint=asked.fingerprint)


async def dedup_many(session: Session, asked: BatchClaimRequest) -> list[Answer]:
    """Claim a batch in the open transaction, under a savepoint: all answered or none claimed."""
    if not asked.keys:
        return []
    await session.begin(asked.wait)
    async with session.savepoint(), session.limit_lock_waits(asked.wait):
        return await claim_many(session, asked.keys, asked.terms)


async def dedup_committed(runner: Runner, asked: ClaimRequest) -> Answer:
    """Claim and commit. Where the reply is lost, the claim is released."""
    attempt = CountedOperation(
        lambda session: claim(session, asked.key, asked.terms, fingerprint=asked.fingerprint)
    )
    try:
        return await runner.run_autocommit(attempt, wait=asked.own_wait)
    except BaseException as problem:  # cancelled, or the reply to the COMMIT was lost
        if attempt.may_have_claimed(problem):
            await release_lost_claims(runner, [asked.key], asked.terms, asked.own_wait)
        raise


async def dedup_many_committed(runner: Runner, asked: BatchClaimRequest) -> list[Answer]:
    """Claim a batch and commit. Where the reply is lost, all of it is released."""
    if not asked.keys:
        return []
    attempt = CountedOperation(lambda session: claim_many(session, asked.keys, asked.terms))
    try:
        return await runner.run(attempt, wait=asked.own_wait)
    except BaseException as problem:
        if attempt.may_have_claimed(problem):
            await release_lost_claims(runner, asked.keys, asked.terms, asked.own_wait)
        raise


async def release_lost_claims(
    runner: Runner, keys: Sequence[Key], terms: Terms, wait: timedelta
) -> None:
    """Release claims whose reply was lost; a failure of that is logged, not raised."""

    async def unclaim_all(session: Session) -> None:
        for key in sorted(keys, key=lambda key: key.digest):
            await unclaim(session, key, terms)

    with log_release_failure(keys[0]):
        await runner.run_shielded(unclaim_all, wait=wait)


@contextmanager
def log_release_failure(key: Key) -> Iterator[None]:
    """Log an error while a claim is released: it must not hide the error that led there."""
    try:
        yield
    except Exception:
        logger.warning(
            "the claim on %s/%s could not be released: it stays until it expires",
            key.scope,
            key.text,
            exc_info=True,
        )


class CountedOperation(Generic[T]):
    """An operation that counts its runs; there are none where the server cannot be reached."""

    def __init__(self, operation: Operation[T]) -> None:
        self._operation = operation
        self.runs = 0

    def __call__(self, session: Session) -> Coroutine[Any, Any, T]:
        """Run the operation once more."""
        self.runs += 1
        return self._operation(session)

    def may_have_claimed(self, problem: BaseException) -> bool:
        """Return True if a claim may stand whose reply was lost.

        A run that ended in `InProgress` claimed nothing; an earlier run may have.
        """
        return self.runs > (1 if isinstance(problem, InProgress) else 0)
