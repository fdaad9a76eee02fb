"""Each test that takes a ``case`` gets a ``bench`` with one job that was leased."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.jobs.effects.benches import Bench

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import HandClock
    from tests.jobs.enqueue.desks import Case


@pytest.fixture
def bench(case: Case, request: pytest.FixtureRequest, clock: HandClock) -> Iterator[Bench]:
    """One job, leased, on the case's store and in its colour, with a clock cranked by hand."""
    with case.open(request, clock) as desk:
        desk.job(lambda _: None, attempts=5)
        desk.enqueue({"order": 1})
        yield Bench(desk)
