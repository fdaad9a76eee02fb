"""The two forms of ``once``, each written once for sync and async.

`InTransaction` is the inbox pattern: claim, work and result in the caller's own transaction, under
a savepoint, so that they stay or go together even if the caller swallows the error and goes on.

`UnderLease` is claim, work, mark for long work: no transaction is open meanwhile. A crash lets the
lease run out; the next caller takes over with a higher epoch, and the late one is refused.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypeVar

from duly.core.answers import Answer, First
from duly.core.errors import LeaseLost, UsageError
from duly.core.states import ClaimState
from duly.ledger.claims import claim, release, unclaim
from duly.ledger.dedup import CountedOperation, claim_bounded, log_release_failure
from duly.ledger.lease import ClaimLease, mark, renew
from duly.ledger.statements import CLAIMS_RESULT

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from duly.core.session import Operation, Runner, Session
    from duly.ledger.arguments import ClaimRequest

T = TypeVar("T")


class InTransaction:
    """Claim, work and result in the caller's transaction."""

    def __init__(self, session: Session, asked: ClaimRequest) -> None:
        self._session = session
        self._asked = asked
        self._savepoint: AbstractAsyncContextManager[None] | None = None

    async def enter(self) -> Answer:
        """Open the savepoint and claim inside it; nothing is left behind if that fails."""
        session, asked = self._session, self._asked
        await session.begin(asked.wait)
        savepoint = session.savepoint()
        await savepoint.__aenter__()
        try:
            answer = await claim_bounded(session, asked)
        except BaseException:
            await savepoint.__aexit__(*sys.exc_info())
            raise
        self._savepoint = savepoint
        return answer

    async def leave(self, error: BaseException | None, result: bytes | None) -> None:
        """Keep claim, work and result, or none of them."""
        savepoint, self._savepoint = self._savepoint, None
        if savepoint is None:
            return
        if error is not None:
            await savepoint.__aexit__(type(error), error, error.__traceback__)
            return
        try:
            if result is not None:
                await self._store_result(result)
        except BaseException:
            await savepoint.__aexit__(*sys.exc_info())
            raise
        await savepoint.__aexit__(None, None, None)

    async def _store_result(self, result: bytes) -> None:
        key, token = self._asked.key, self._asked.terms.token
        await self._session.write(
            CLAIMS_RESULT, scope=key.scope, digest=key.digest, token=token, result=result
        )


class UnderLease:
    """Claim, work, mark, with no transaction open in between."""

    def __init__(self, runner: Runner, asked: ClaimRequest) -> None:
        self._runner = runner
        self._asked = asked
        self._lease: ClaimLease | None = None
        self._over = False
        # Whether a mark was committed, or stands in a transaction that may yet be rolled back.
        self._marked: Literal["committed", "joined"] | None = None

    async def enter(self) -> Answer:
        """Take the lease, or learn that the work is done; `InProgress` while another holds it."""
        asked = self._asked
        attempt = CountedOperation(
            lambda own: claim(own, asked.key, asked.terms, fingerprint=asked.fingerprint)
        )
        try:
            answer = await self._run(attempt)
        except BaseException as problem:  # perhaps cancelled before the reply came
            if attempt.may_have_claimed(problem):
                with log_release_failure(asked.key):
                    await self._runner.run_shielded(
                        lambda own: unclaim(own, asked.key, asked.terms), wait=asked.own_wait
                    )
            raise
        if isinstance(answer, First):
            self._lease = ClaimLease(asked.key, asked.terms.token, answer.epoch)
        return answer

    async def leave(self, error: BaseException | None, result: bytes | None) -> None:
        """Mark the work done, or give the lease back so that the next caller need not wait."""
        if self._lease is None:
            return
        try:
            if error is not None:
                await self._give_back()
            elif self._marked is None:
                await self._mark_or_give_back(result)
        finally:
            self._over = True

    async def _mark_or_give_back(self, result: bytes | None) -> None:
        try:
            await self.mark(result)
        except LeaseLost:
            raise
        except BaseException:  # cancelled while marking; a mark that went through stays
            await self._give_back()
            raise

    async def mark(self, result: bytes | None, session: Session | None = None) -> None:
        """Mark the work done, in a transaction of duly's own or in the session given."""
        lease, ttl = self.lease, self._asked.terms.ttl
        self.refuse_over()
        if session is None:
            await self._run(lambda own: mark(own, lease, result=result, ttl=ttl))
            self._marked = "committed"
        else:
            await session.begin(None)
            await mark(session, lease, result=result, ttl=ttl)
            self._marked = "joined"

    async def renew(self) -> None:
        """Extend the lease by its own length from now."""
        self.refuse_over()
        lease, length = self.lease, self._asked.terms.lease or 0
        await self._run(lambda own: renew(own, lease, length=length))

    @property
    def lease(self) -> ClaimLease:
        """The lease of a turn that is first."""
        if self._lease is None:
            raise UsageError("this turn is a duplicate and holds no lease: look at turn.result")
        return self._lease

    def refuse_over(self) -> None:
        """A lease that was marked is over; a mark in the user's transaction may be repeated."""
        if self._over or self._marked == "committed":
            raise UsageError(
                "this turn is over: mark and renew it inside its block, and mark it once"
            )

    async def _give_back(self) -> None:
        """Release, without ever hiding the error that led here; else the lease runs out.

        A mark in the user's transaction, if that is still open, holds the row: it is not waited
        for, because the caller who could end it is the one who would wait.
        """
        key, token = self._asked.key, self._asked.terms.token
        wait = timedelta(0) if self._marked == "joined" else self._asked.own_wait
        with log_release_failure(key):
            await self._runner.run_shielded(
                lambda own: release(own, key, token, ClaimState.HELD), wait=wait
            )

    async def _run(self, operation: Operation[T]) -> T:
        return await self._runner.run_autocommit(operation, wait=self._asked.own_wait)
