"""A shop of the user's, and the same in the hands of a test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import duly
from duly.testing import Trial, isolated
from tests.testing.shops import a_shop, tables


@pytest.fixture
def shop(tmp_path: Path) -> duly.Duly:
    """An application on its own database."""
    return a_shop(tmp_path)


@pytest.fixture
def trial(shop: duly.Duly) -> Iterator[Trial]:
    """The same on a database for this test."""
    with isolated(shop) as found:
        tables(found)
        yield found
