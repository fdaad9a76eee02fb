"""Each test that takes a ``case`` gets a ``desk`` whose clock is cranked by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import HandClock
    from tests.jobs.enqueue.desks import Case, Desk


@pytest.fixture
def desk(case: Case, request: pytest.FixtureRequest, clock: HandClock) -> Iterator[Desk]:
    with case.open(request, clock) as opened:
        yield opened
