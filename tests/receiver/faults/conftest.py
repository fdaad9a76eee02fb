"""Where the faults are tried: each store, each protocol, each moment at which handlers run."""

from collections.abc import Iterator
from typing import cast

import pytest

from tests.receiver.faults.shops import MODES, Mode
from tests.support.proxies import Proxy, proxy

# Each protocol, and each moment at which handlers run; the other pairs of them are wide.
SHOWN = {("asgi", "deferred"), ("wsgi", "inline"), ("asgi", "inline async")}


@pytest.hookimpl(tryfirst=True)  # before tests/conftest.py leaves out what is wide
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the pairs of a protocol and a moment that are not shown."""
    for item in items:
        found = item.callspec.params if hasattr(item, "callspec") else {}
        pair = (found.get("way"), found.get("mode"))
        if pair[0] in ("asgi", "wsgi") and pair[1] in MODES and pair not in SHOWN:
            item.add_marker(pytest.mark.wide)


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
