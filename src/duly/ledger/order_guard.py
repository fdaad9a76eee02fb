"""The order guard: one conditional upsert that lets a resource only move forward."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.core.defaults import WAIT
from duly.core.errors import UsageError
from duly.ledger.statements import VERSIONS_ADVANCE, VERSIONS_READ

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.core.session import Row, Runner, Session
    from duly.ledger.arguments import VersionAdvance


async def newer(session: Session, asked: VersionAdvance) -> bool:
    """Record the version and return True if it is later than any applied to the resource.

    Concurrent writers of one resource take turns; none of them can move it back.
    """
    resource, version = asked.resource, asked.version
    written = await session.write(
        VERSIONS_ADVANCE,
        scope=resource.scope,
        digest=resource.digest,
        kind=version.kind.value,
        version=version.order,
        tie=asked.tie,
        token=asked.token,
    )
    if written:
        return True
    known = await session.rows(VERSIONS_READ, scope=resource.scope, digest=resource.digest)
    refuse_other_kind(known, asked)
    return False


def refuse_other_kind(known: Sequence[Row], asked: VersionAdvance) -> None:
    """Refuse to compare versions of different kinds."""
    resource, kind = asked.resource, asked.version.kind
    if known and known[0]["kind"] not in (kind, kind.encode()):
        raise UsageError(
            f"the versions of {resource.scope}/{resource.text} are of kind {known[0]['kind']!s}, "
            f"this one is of kind {kind}: a resource keeps its first kind"
        )


async def would_apply(session: Session, asked: VersionAdvance) -> bool:
    """Return True if the version is later than any applied; nothing is recorded."""
    known = await session.rows(
        VERSIONS_READ, scope=asked.resource.scope, digest=asked.resource.digest
    )
    refuse_other_kind(known, asked)
    if not known:
        return True
    applied, ours = bytes(known[0]["version"]), asked.version.order
    if applied != ours:
        return applied < ours
    return asked.tie or bytes(known[0]["token"] or b"") == asked.token


async def newer_joined(session: Session, asked: VersionAdvance) -> bool:
    """`newer` in the caller's transaction."""
    await session.begin(None)
    return await newer(session, asked)


async def newer_committed(runner: Runner, asked: VersionAdvance) -> bool:
    """`newer`, committed."""
    return await runner.run_autocommit(lambda session: newer(session, asked), wait=WAIT)
