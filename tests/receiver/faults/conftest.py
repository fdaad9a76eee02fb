"""Where the faults are tried: each store, each protocol, each moment at which handlers run."""

from collections.abc import Iterator
from typing import cast

import pytest

from tests.receiver.faults.shops import MODES, Mode
from tests.support.proxies import Proxy, proxy


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """A database for one test alone."""
    kind = "own_postgres_url" if request.param == "postgres" else "sqlite_url"
    address: str = request.getfixturevalue(kind)
    return address


@pytest.fixture(params=["asgi", "wsgi"])
def way(request: pytest.FixtureRequest) -> str:
    """The protocol that the server speaks."""
    return str(request.param)


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> Mode:
    """When handlers run, and in which colour."""
    return cast("Mode", request.param)


@pytest.fixture
def wire(own_postgres_url: str) -> Iterator[Proxy]:
    """A wire to a database of the test's own, which can be cut."""
    with proxy(own_postgres_url) as opened:
        yield opened
