"""A server for each module of tests, checked when they are over, and a way to report figures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.server.hostile.application import BODY_DEADLINE
from tests.server.hostile.servers import serving
from tests.server.hostile.serving import HEADER_DEADLINE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.server.hostile.servers import Server

HERE = Path(__file__).parent
# How long the bodies and the headers of slow senders may take here.
BODY_SECONDS = 2.0
HEADER_SECONDS = 3.0


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have a module's tests of one server run in one process, or each would start one."""
    for item in items:
        if item.path.parent == HERE and "server" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """``duly serve`` on SQLite."""
    folder = tmp_path_factory.mktemp("hostile")
    hurried = {BODY_DEADLINE: str(BODY_SECONDS), HEADER_DEADLINE: str(HEADER_SECONDS)}
    with serving(f"sqlite:///{folder / 'duly.db'}", folder, settings=hurried) as running:
        yield running
        running.check_alive()


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Print a figure that people want to see also of a good run."""

    def said(text: str) -> None:
        with capsys.disabled():
            print(f"\nhostile: {text}", file=sys.stderr)

    return said
