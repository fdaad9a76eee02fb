"""Servers are started once in a test process, each at its first test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.receiver.integrations.stands import Kind, Stand
from tests.stores.join.places import settle_in

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have the tests of one server run in one process, or every process would start all of them."""
    for item in items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        if isinstance(kind := parameters.get("kind"), Kind):
            item.add_marker(pytest.mark.xdist_group(str(kind)))


@pytest.fixture(scope="session")
def stands() -> Iterator[dict[Kind, Stand]]:
    """The servers that run."""
    running: dict[Kind, Stand] = {}
    yield running
    for stand in running.values():
        stand.process.terminate()  # all at once: each takes a moment to drain
    for stand in running.values():
        stand.stop()


@pytest.fixture
def stand(
    kind: Kind,
    stands: dict[Kind, Stand],
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Stand:
    """The server of a kind."""
    if kind not in stands:
        folder = tmp_path_factory.mktemp(str(kind))
        url = f"sqlite:///{folder / 'shop.db'}"
        if kind.store == "postgres":
            url = request.getfixturevalue("postgres_url")
        made = Stand(kind, settle_in(url), folder / "log")
        made.start()
        stands[kind] = made
    return stands[kind]
