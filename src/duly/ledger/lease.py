"""Leases: only the newest holder may renew, settle or release.

A lease is named by a random token and by an epoch that only grows. Every statement under a lease
repeats both in its condition, so a holder that was paused past its lease and replaced changes no
row, and learns it as `LeaseLost`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from duly.core.errors import LeaseLost
from duly.ledger.statements import CLAIMS_MARK, CLAIMS_READ, CLAIMS_RENEW

if TYPE_CHECKING:
    from duly.core.keys import Key
    from duly.core.session import Session, Value


class Lease(NamedTuple):
    """The time-bounded right to work on one job or message."""

    id: str
    token: bytes
    epoch: int

    def fence(self) -> dict[str, Value]:
        """The parameters with which a statement changes this lease's row, and no other."""
        return {"id": self.id, "token": self.token, "epoch": self.epoch}

    def fence_texts(self) -> dict[str, Value]:
        """The same as texts, for one of many: every store can send those in one statement."""
        return {"id": self.id, "token": self.token.hex(), "epoch": str(self.epoch)}


@dataclass(frozen=True, slots=True)
class ClaimLease:
    """The time-bounded right to work on one key."""

    key: Key
    token: bytes
    epoch: int


async def mark(
    session: Session, lease: ClaimLease, *, result: bytes | None, ttl: int | None
) -> None:
    """End the lease as done. A rerun after a lost COMMIT reply recognises its own mark."""
    written = await session.write(
        CLAIMS_MARK,
        scope=lease.key.scope,
        digest=lease.key.digest,
        token=lease.token,
        epoch=lease.epoch,
        result=result,
        ttl=ttl,
    )
    if not written and not await was_marked(session, lease):
        raise lease_lost_error(lease, "its result was not kept")


async def was_marked(session: Session, lease: ClaimLease) -> bool:
    """Return True if this lease has already been marked done."""
    rows = await session.rows(
        CLAIMS_READ, scope=lease.key.scope, digest=lease.key.digest, token=lease.token
    )
    return bool(rows and rows[0]["mine"] and not rows[0]["held"])


async def renew(session: Session, lease: ClaimLease, *, length: int) -> None:
    """Extend the lease by its length from now."""
    written = await session.write(
        CLAIMS_RENEW,
        scope=lease.key.scope,
        digest=lease.key.digest,
        token=lease.token,
        epoch=lease.epoch,
        lease=length,
    )
    if not written:
        raise lease_lost_error(lease, "it cannot be renewed")


def lease_lost_error(lease: ClaimLease, consequence: str) -> LeaseLost:
    """The error of a holder that is no longer the newest."""
    return LeaseLost(
        f"the lease on {lease.key.scope}/{lease.key.text} (epoch {lease.epoch}) was lost: "
        f"{consequence}. Stop this work, and take a longer lease or renew it more often. (Or the "
        "transaction passed as tx= is in another database, or older than the claim)"
    )
