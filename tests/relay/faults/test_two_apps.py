"""A tells B of its orders, over a wire that loses and repeats, while both are killed: once each.

The whole size, 5,000 orders, is for `make storm-outbox`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.relay.faults.storms import TwoApps
from tests.support.servers import database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

MESSAGES = int(os.environ.get("DULY_STORM_MESSAGES", "5000"))
FEW = 150
# Orders for each process that is killed.
EACH = 250
SEED = 6


@pytest.fixture(params=["sqlite", "postgres"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A database for each of the two."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db"
        return
    server: str = request.getfixturevalue("postgres_server")
    template: str = request.getfixturevalue("postgres_template")
    with database(server, template) as first, database(server, template) as second:
        yield first, second


def tried(places: tuple[str, str], messages: int, kills: int) -> str:
    with TwoApps(places, messages, SEED) as apps:
        apps.run(kills)
        apps.check()
        return apps.figures()


def test_what_a_commits_b_does_once_over_a_bad_wire_while_both_are_killed(
    places: tuple[str, str],
) -> None:
    print(tried(places, FEW, kills=2))


@pytest.mark.long
def test_the_same_with_thousands_of_orders(
    places: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    figures = tried(places, MESSAGES, kills=max(MESSAGES // EACH, 4))
    with capsys.disabled():
        print(f"\n{figures}")
