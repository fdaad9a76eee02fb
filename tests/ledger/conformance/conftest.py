"""The suite's parameters: every subject, over a real database of the right kind."""

from __future__ import annotations

import pytest

import duly
from tests.ledger.conformance.subjects import CASES, STORE_CASES, WAY_CASES, Case


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    """Every subject: stores in both colours, and every joined connection type."""
    found: Case = request.param
    return found


@pytest.fixture(params=STORE_CASES, ids=lambda case: case.name)
def store_case(request: pytest.FixtureRequest) -> Case:
    """The stores alone, for what needs no transaction of the user's."""
    found: Case = request.param
    return found


@pytest.fixture(params=WAY_CASES, ids=lambda case: case.name)
def way_case(request: pytest.FixtureRequest) -> Case:
    """The joined connection types alone, for what needs a transaction left open."""
    found: Case = request.param
    return found


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    """A migrated database of the kind that the test's subject wants."""
    [name] = {"case", "store_case", "way_case"} & set(request.fixturenames)
    wanted: Case = request.getfixturevalue(name)
    if wanted.kind == "memory":
        return "memory:"
    address: str = request.getfixturevalue(f"{wanted.kind}_url")
    if wanted.kind == "sqlite":
        with duly.store(address) as store:
            store.migrate()
    return address
