"""What the ledger promises, as a few lines of Python over dictionaries: no SQL, no transaction.

The stores are compared with it step by step. It is written from the promises and not from the
statements: a claim is looked at, then granted, refused or answered, in one place.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Self

from duly import Duplicate, First
from duly.core.json_bytes import Json
from duly.errors import InProgress, LeaseLost, UsageError

Name = tuple[str, str]
Answer = First | Duplicate
Version = int | datetime | str


@dataclass(frozen=True)
class Stored:
    """A result that was kept; a stored None is one too."""

    value: Json


@dataclass(frozen=True)
class Wish:
    """What a caller asks for: by whom, for how long, under a lease or not."""

    caller: int
    ttl: timedelta | None
    lease: timedelta | None = None
    body: bytes | None = None


@dataclass(frozen=True)
class Claim:
    """One remembered key. ``lease_until`` is None once the work is done."""

    caller: int | None
    epoch: int
    first_seen: datetime
    expires_at: datetime | None
    lease_until: datetime | None
    body: bytes | None = None
    result: Stored | None = None

    def free(self, now: datetime) -> bool:
        """Whether the next caller may have it."""
        if self.lease_until is not None:
            return self.lease_until <= now
        return self.expires_at is not None and self.expires_at <= now

    def forgettable(self, now: datetime) -> bool:
        """Whether it may be pruned: its time is over, and nobody works under it."""
        if self.expires_at is None or self.expires_at > now:
            return False
        return self.lease_until is None or self.lease_until <= now


def after(now: datetime, length: timedelta | None) -> datetime | None:
    return None if length is None else now + length


class Ledger:
    """Claims and versions by name; every method takes the time it happens at."""

    def __init__(self) -> None:
        self.claims: dict[Name, Claim] = {}
        self.versions: dict[Name, Version] = {}

    def copy(self) -> Self:
        """A snapshot, for a transaction that may go."""
        other = type(self)()
        other.claims, other.versions = dict(self.claims), dict(self.versions)
        return other

    def restore(self, before: Self) -> None:
        """Everything since the snapshot is gone."""
        self.claims, self.versions = dict(before.claims), dict(before.versions)

    def claim(self, name: Name, wish: Wish, now: datetime) -> Answer:
        """First, a duplicate, or `InProgress`."""
        known = self.claims.get(name)
        if known is not None and not known.free(now):
            return answer_from(known, wish, now)
        worked_on = known is not None and known.lease_until is not None
        made = Claim(
            caller=wish.caller,
            epoch=1 if known is None else known.epoch + 1,
            first_seen=known.first_seen if known is not None and worked_on else now,
            expires_at=after(now, wish.ttl),
            lease_until=after(now, wish.lease),
            body=wish.body,
        )
        self.claims[name] = made
        return First(made.first_seen, made.epoch)

    def claim_many(self, names: Sequence[Name], wish: Wish, now: datetime) -> list[Answer]:
        """All answered, or `InProgress` and none claimed."""
        before = self.copy()
        answers: list[Answer] = []
        try:
            for name in names:
                answers.append(self.claim(name, wish, now))
        except InProgress:
            self.restore(before)
            raise
        return answers

    def keep(self, name: Name, caller: int, result: Json) -> None:
        """Store the result of a claim made in the same transaction."""
        claim = self.claims.get(name)
        if claim is not None and claim.caller == caller and claim.lease_until is None:
            self.claims[name] = replace(claim, result=Stored(result))

    def renew(self, name: Name, caller: int, lease: timedelta, now: datetime) -> None:
        """Only the newest holder may."""
        self.claims[name] = replace(self._mine(name, caller), lease_until=now + lease)

    def mark(self, name: Name, wish: Wish, result: Stored | None, now: datetime) -> None:
        """Only the newest holder may, and a second time changes nothing."""
        claim = self.claims.get(name)
        if claim is not None and claim.caller == wish.caller and claim.lease_until is None:
            return
        self.claims[name] = replace(
            self._mine(name, wish.caller),
            lease_until=None,
            result=result,
            expires_at=after(now, wish.ttl),
        )

    def release(self, name: Name, caller: int, now: datetime) -> None:
        """Give a lease back; whoever is not its newest holder changes nothing."""
        claim = self.claims.get(name)
        if claim is not None and claim.caller == caller and claim.lease_until is not None:
            self.claims[name] = replace(claim, caller=None, lease_until=now, result=None)

    def _mine(self, name: Name, caller: int) -> Claim:
        claim = self.claims.get(name)
        if claim is None or claim.caller != caller or claim.lease_until is None:
            raise LeaseLost("somebody newer has it")
        return claim

    def newer(self, name: Name, version: Version, tie: str | None) -> bool:
        """Whether it is later than any applied; a resource keeps its first kind."""
        known = self.versions.get(name)
        if known is not None and type(known) is not type(version):
            raise UsageError("another kind")
        if known is None or order(version) > order(known):
            self.versions[name] = version
            return True
        ties = isinstance(version, datetime) if tie is None else tie == "apply"
        return ties and order(version) == order(known)

    def forget(self, gone: set[Name], limit: int, now: datetime) -> None:
        """Check what a prune took: the longest expired first, as many as allowed, no other."""
        over = {name: claim for name, claim in self.claims.items() if claim.forgettable(now)}
        assert gone <= over.keys(), "a claim was pruned before its time"
        assert len(gone) == min(limit, len(over)), "prune took too few or too many"
        left = [over[name].expires_at for name in over.keys() - gone]
        taken = [over[name].expires_at for name in gone]
        assert not left or not taken or max(map(known, taken)) <= min(map(known, left))
        for name in gone:
            del self.claims[name]


def known(moment: datetime | None) -> datetime:
    assert moment is not None
    return moment


def order(version: Version) -> tuple[float, bytes]:
    """Versions of one kind in their order; the numbers of these tests are small."""
    if isinstance(version, str):
        return 0, version.encode()
    return (version.timestamp() if isinstance(version, datetime) else version), b""


def answer_from(claim: Claim, wish: Wish, now: datetime) -> Duplicate:
    """What a claim that is not free says to somebody else."""
    if claim.lease_until is not None:
        raise InProgress("somebody works on it", retry_after=claim.lease_until - now)
    return Duplicate(
        first_seen=claim.first_seen,
        result=None if claim.result is None else claim.result.value,
        has_result=claim.result is not None,
        body_differs=None not in (claim.body, wish.body) and claim.body != wish.body,
    )
