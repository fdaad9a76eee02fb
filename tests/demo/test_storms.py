"""Whole storms, as small as they can be: every fault there is, every line of the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.demo.storms import Storm
from tests.receiver.faults.clusters import Cluster, cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

DELIVERIES = "1000"
SEED = "27"  # one of whose first events kills, and others are of every other kind
# Killers are one event in a thousand: a storm as short as these may have none of them.
FAULTS = {"kill -9", "SIGSTOP", "SIGTERM", "rolling restart"}


@pytest.fixture
def server() -> Iterator[Cluster]:
    """A server that can be struck down."""
    with cluster() as started:
        yield started


def stormed(folder: Path, *arguments: str) -> dict[str, Any]:
    """The document of a storm that has ended, with everything balanced and nothing left."""
    storm = Storm(
        folder, *arguments, "--deliveries", DELIVERIES, "--seed", SEED, "--workers", "4", "--json"
    )
    found = storm.document()
    assert [line for line in found["ledger"] if not line["balances"]] == []
    assert found["balances"]
    assert storm.process.returncode == 0
    assert storm.left_behind() == []
    return found


def fired(found: dict[str, Any]) -> set[str]:
    """The faults that were there."""
    return {name for name, count in found["faults"].items() if count}


def test_the_books_balance_after_a_storm_on_sqlite(tmp_path: Path) -> None:
    found = stormed(tmp_path)

    assert fired(found) >= {*FAULTS, "write lock held"}, fired(found)
    assert found["deliveries"] >= int(DELIVERIES)
    assert found["answers"]["conflict"] > 0
    assert found["answers"]["403"] > 0


@pytest.mark.wide
def test_the_books_balance_after_a_storm_on_a_server_that_crashes(
    tmp_path: Path, server: Cluster
) -> None:
    found = stormed(tmp_path, server.url, "--cluster", str(server.folder / "data"))

    assert fired(found) >= {*FAULTS, "database crash"}, fired(found)
    assert found["late_acks"]["tried"] == found["late_acks"]["refused"]
