"""A test that takes a ``way`` also gets a ``place``, and one that takes a ``case`` a ``desk``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.stores.join.conftest import place, settled_postgres, settled_sqlite  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import HandClock
    from tests.jobs.enqueue.desks import Case, Desk


@pytest.fixture
def desk(case: Case, request: pytest.FixtureRequest, clock: HandClock) -> Iterator[Desk]:
    """An application with a clock cranked by hand, on the case's store and in its colour."""
    with case.open(request, clock) as opened:
        opened.job(lambda _: None)
        yield opened
