"""Where schedules are tried: every store, under a clock cranked by hand."""

from collections.abc import Iterator

import pytest

import duly
from tests.conftest import HandClock

STORES = {"sqlite": "sqlite_url", "postgres": "own_postgres_url"}


@pytest.fixture(params=["sqlite", "postgres", "memory"])
def url(request: pytest.FixtureRequest) -> str:
    """Every store."""
    if request.param not in STORES:
        return "memory:"
    address: str = request.getfixturevalue(STORES[request.param])
    return address


@pytest.fixture
def store(url: str, clock: HandClock) -> Iterator[duly.types.Store]:
    """Every store, under a clock cranked by hand."""
    with duly.store(url, clock=clock) as opened:
        yield opened


@pytest.fixture
def app(url: str, clock: HandClock) -> Iterator[duly.Duly]:
    """An application on every store, under a clock cranked by hand."""
    opened = duly.Duly(url, clock=clock)
    yield opened
    opened.close()
