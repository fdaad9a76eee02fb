"""Just the answer: in the caller's transaction, or committed in one of duly's own."""

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
    async with session.savepoint(), session.limit_lock_waits(asked.wait):
        return await claim(session, asked.key, asked.terms, fingerprint=asked.fingerprint)


async def dedup_many(session: Session, asked: BatchClaimRequest) -> list[Answer]:
    """Claim a batch in the open transaction, under a savepoint: all answered or none claimed."""
    if not asked.keys:
        return []
    await session.begin(asked.wait)
    async with session.savepoint(), session.limit_lock_waits(asked.wait):
        return await claim_many(session, asked.keys, asked.terms)


async def dedup_committed(runner: Runner, asked: ClaimRequest) -> Answer:
    """Claim and commit. A caller that never hears the answer has claimed nothing."""
    attempt = CountedOperation(
        lambda session: claim(session, asked.key, asked.terms, fingerprint=asked.fingerprint)
    )
    try:
        return await runner.run_autocommit(attempt, wait=asked.own_wait)
    except BaseException as problem:  # cancelled, or the last COMMIT may have gone through unheard
        if attempt.may_have_claimed(problem):
            await unclaim_unheard(runner, [asked.key], asked.terms, asked.own_wait)
        raise


async def dedup_many_committed(runner: Runner, asked: BatchClaimRequest) -> list[Answer]:
    """Claim a batch and commit it, or, where the answer is never heard, none of it."""
    if not asked.keys:
        return []
    attempt = CountedOperation(lambda session: claim_many(session, asked.keys, asked.terms))
    try:
        return await runner.run(attempt, wait=asked.own_wait)
    except BaseException as problem:
        if attempt.may_have_claimed(problem):
            await unclaim_unheard(runner, asked.keys, asked.terms, asked.own_wait)
        raise


async def unclaim_unheard(
    runner: Runner, keys: Sequence[Key], terms: Terms, wait: timedelta
) -> None:
    """Give back claims whose answer nobody heard; the error on its way out comes first."""

    async def unclaim_all(session: Session) -> None:
        for key in sorted(keys, key=lambda key: key.digest):
            await unclaim(session, key, terms)

    with log_release_failure(keys[0]):
        await runner.run_shielded(unclaim_all, wait=wait)


@contextmanager
def log_release_failure(key: Key) -> Iterator[None]:
    """Giving back a claim must not hide the error that led to it: a second error is logged."""
    try:
        yield
    except Exception:
        logger.warning(
            "the claim on %s/%s could not be given back: it is taken until its time is over",
            key.scope,
            key.text,
            exc_info=True,
        )


class CountedOperation(Generic[T]):
    """An operation that counts its runs; a server that is away begins none."""

    def __init__(self, operation: Operation[T]) -> None:
        self._operation = operation
        self.runs = 0

    def __call__(self, session: Session) -> Coroutine[Any, Any, T]:
        """Run the operation once more."""
        self.runs += 1
        return self._operation(session)

    def may_have_claimed(self, problem: BaseException) -> bool:
        """Whether a claim may stand that nobody heard of.

        `InProgress` says that the run it ended claimed nothing; an earlier run may have, unheard.
        """
        return self.runs > (1 if isinstance(problem, InProgress) else 0)
