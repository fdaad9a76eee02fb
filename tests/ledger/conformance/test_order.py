"""Promises of the order guard: a resource only moves forward."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duly.errors import UsageError

if TYPE_CHECKING:
    from tests.conftest import HandClock
    from tests.ledger.conformance.subjects import Case

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


async def test_50_concurrent_writers_never_move_a_resource_back(
    case: Case, url: str, scope: str, clock: HandClock
) -> None:
    versions = random.Random(3).sample(range(-500, 500), 50)
    async with case.open(url, clock) as subject:
        applied = await asyncio.gather(
            *(subject.newer("cus_1", version, scope=scope) for version in versions)
        )
        assert not await subject.newer("cus_1", max(versions), scope=scope)
        assert await subject.newer("cus_1", max(versions) + 1, scope=scope)

    assert dict(zip(versions, applied, strict=True))[max(versions)]
    assert any(applied)


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (-(2**63), -1),
        (-1, 0),
        (9, 10),
        (2**53, 2**53 + 1),
        (2**62, 2**63 - 1),
        (NOON, NOON + timedelta(microseconds=1)),
        (datetime(1960, 1, 1, tzinfo=UTC), NOON),
        ("2026-01-01", "2026-01-02"),
        ("a", "a\x00"),
        ("Z", "a"),
        ("é", "ё"),
    ],
)
async def test_versions_compare_as_what_they_are(
    store_case: Case, url: str, scope: str, clock: HandClock, earlier: Any, later: Any
) -> None:
    async with store_case.open(url, clock) as subject:
        assert await subject.newer("cus_1", earlier, scope=scope)
        assert await subject.newer("cus_1", later, scope=scope)
        assert not await subject.newer("cus_1", earlier, scope=scope)


async def test_equal_timestamps_apply_and_equal_sequences_are_skipped_unless_told(
    case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with case.open(url, clock) as subject:
        for resource, version, applies in (("t", NOON, True), ("n", 5, False), ("s", "v1", False)):
            assert await subject.newer(resource, version, scope=scope)
            assert await subject.newer(resource, version, scope=scope) is applies
            assert await subject.newer(resource, version, tie="apply", scope=scope)
            assert not await subject.newer(resource, version, tie="skip", scope=scope)


async def test_a_resource_keeps_its_first_kind(
    case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with case.open(url, clock) as subject:
        await subject.newer("cus_1", 5, scope=scope)
        for other in (NOON, "5"):
            with pytest.raises(UsageError, match="keeps its first kind"):
                await subject.newer("cus_1", other, scope=scope)
        assert await subject.newer("cus_1", 6, scope=scope)


async def test_resources_and_scopes_do_not_share_versions(
    case: Case, url: str, scope: str, clock: HandClock
) -> None:
    async with case.open(url, clock) as subject:
        assert await subject.newer("cus_1", 9, scope=scope)
        assert await subject.newer("cus_2", 1, scope=scope)
        assert await subject.newer("cus_1", 1, scope=f"{scope}-b")
