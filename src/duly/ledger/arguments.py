"""The arguments of the ledger's verbs, checked; the same for sync and async."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from duly.core.defaults import WAIT
from duly.core.ids import new_token
from duly.core.validation import (
    checked_body,
    checked_duration,
    checked_key,
    checked_keys,
    checked_ttl,
    checked_wait,
)
from duly.core.versions import ComparableVersion, Tie, Version, tie_applies, to_comparable
from duly.ledger.claims import Terms

if TYPE_CHECKING:
    from datetime import timedelta

    from duly.core.keys import Key


class ClaimRequest(NamedTuple):
    """One claim to make. ``wait`` is None where the caller set no bound."""

    key: Key
    terms: Terms
    fingerprint: bytes | None
    wait: timedelta | None

    @property
    def own_wait(self) -> timedelta:
        """How long a transaction that duly opens waits."""
        return WAIT if self.wait is None else self.wait


class BatchClaimRequest(NamedTuple):
    """Many claims to make in one transaction."""

    keys: list[Key]
    terms: Terms
    wait: timedelta | None

    @property
    def own_wait(self) -> timedelta:
        """How long a transaction that duly opens waits."""
        return WAIT if self.wait is None else self.wait


def claim_request(
    scope: object,
    key: object,
    ttl: object,
    *,
    body: object,
    wait: object,
    lease: object = None,
) -> ClaimRequest:
    """Check the arguments of one claim, and choose its token."""
    length = None if lease is None else checked_duration("lease", lease)
    return ClaimRequest(
        checked_key(scope, key),
        Terms(new_token(), checked_ttl(ttl), length),
        checked_body(body),
        checked_wait(wait),
    )


def batch_claim_request(
    scope: object, keys: object, ttl: object, *, wait: object
) -> BatchClaimRequest:
    """Check the arguments of a batch, and choose its token."""
    terms = Terms(new_token(), checked_ttl(ttl))
    return BatchClaimRequest(checked_keys(scope, keys), terms, checked_wait(wait))


class VersionAdvance(NamedTuple):
    """One version to record, and whether an equal one counts as newer.

    By the token a rerun after a lost reply recognises its own version.
    """

    resource: Key
    version: ComparableVersion
    tie: bool
    token: bytes


def version_advance(
    scope: object, resource: object, version: Version, tie: Tie | None
) -> VersionAdvance:
    """Check the arguments of the order guard."""
    ordered = to_comparable(version)
    return VersionAdvance(
        checked_key(scope, resource, what="resource"),
        ordered,
        tie_applies(ordered.kind, tie),
        new_token(),
    )
