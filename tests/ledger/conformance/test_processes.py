"""The same promise across processes: several race, and one of them is first for each key."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

import duly
from tests.support.processes import Led
from tests.support.sizes import sized

if TYPE_CHECKING:
    from collections.abc import Iterator

PROCESSES = sized(4, whole=8)
KEYS = 40


@pytest.fixture(params=["sqlite", "postgres"])
def shared_url(request: pytest.FixtureRequest) -> str:
    """A database that several processes can use."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    if request.param == "sqlite":
        duly.store(url).open().close()
    return url


@pytest.fixture(params=["sync", "async"])
def racers(request: pytest.FixtureRequest, shared_url: str, scope: str) -> Iterator[list[Led]]:
    """Processes that are ready to race."""
    arguments = ("tests.ledger.conformance.racer", shared_url, scope, request.param, str(KEYS))
    started = [Led(*arguments) for _ in range(PROCESSES)]
    assert [racer.reply() for racer in started] == ["ready"] * PROCESSES
    yield started
    for racer in started:
        racer.kill()


@pytest.mark.promise("one first", "machines")
@pytest.mark.slow
def test_of_several_processes_exactly_one_is_first_for_each_key(
    racers: list[Led], shared_url: str, scope: str
) -> None:
    for racer in racers:
        racer.send("go")
    outcomes = [racer.reply() for racer in racers]

    assert [len(each) for each in outcomes] == [KEYS] * PROCESSES
    for nth in range(KEYS):
        counted = Counter(each[nth] for each in outcomes)
        assert counted["first"] == 1, f"evt_{nth}: {counted}"
        assert counted["duplicate"] + counted["held"] == PROCESSES - 1
