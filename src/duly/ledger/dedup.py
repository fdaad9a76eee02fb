"""Just the answer: in the caller's transaction, or committed in one of duly's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.ledger.claims import claim, claim_many, unclaim
from duly.ledger.rerun import Attempt, giving_back

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from duly.core.answers import Answer
    from duly.core.keys import Key
    from duly.core.session import Runner, Session
    from duly.ledger.arguments import Ask, BatchAsk
    from duly.ledger.claims import Terms


async def dedup(session: Session, asked: Ask) -> Answer:
    """Claim in the open transaction; a bounded wait costs a savepoint, no bound costs nothing."""
    await session.begin(asked.wait)
    if asked.wait is None:
        return await claim(session, asked.key, asked.terms, fingerprint=asked.fingerprint)
    async with session.savepoint(), session.waiting(asked.wait):
        return await claim(session, asked.key, asked.terms, fingerprint=asked.fingerprint)


async def dedup_many(session: Session, asked: BatchAsk) -> list[Answer]:
    """Claim a batch in the open transaction, under a savepoint: all answered or none claimed."""
    if not asked.keys:
        return []
    await session.begin(asked.wait)
    async with session.savepoint(), session.waiting(asked.wait):
        return await claim_many(session, asked.keys, asked.terms)


async def dedup_committed(runner: Runner, asked: Ask) -> Answer:
    """Claim and commit. A caller that never hears the answer has claimed nothing."""
    attempt = Attempt(
        lambda session: claim(session, asked.key, asked.terms, fingerprint=asked.fingerprint)
    )
    try:
        return await runner.run_single(attempt, wait=asked.own_wait)
    except BaseException as problem:  # cancelled, or the last COMMIT may have gone through unheard
        if attempt.may_have_claimed(problem):
            await undo(runner, [asked.key], asked.terms, asked.own_wait)
        raise


async def dedup_many_committed(runner: Runner, asked: BatchAsk) -> list[Answer]:
    """Claim a batch and commit it, or, where the answer is never heard, none of it."""
    if not asked.keys:
        return []
    attempt = Attempt(lambda session: claim_many(session, asked.keys, asked.terms))
    try:
        return await runner.run(attempt, wait=asked.own_wait)
    except BaseException as problem:
        if attempt.may_have_claimed(problem):
            await undo(runner, asked.keys, asked.terms, asked.own_wait)
        raise


async def undo(runner: Runner, keys: Sequence[Key], terms: Terms, wait: timedelta) -> None:
    """Give back claims whose answer nobody heard; the error on its way out comes first."""

    async def unclaim_all(session: Session) -> None:
        for key in sorted(keys, key=lambda key: key.digest):
            await unclaim(session, key, terms)

    with giving_back(keys[0]):
        await runner.run_surely(unclaim_all, wait=wait)
