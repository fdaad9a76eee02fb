"""The same promise across processes: several race, and one of them is first for each key."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import duly
from tests.sizes import sized

if TYPE_CHECKING:
    from collections.abc import Iterator

PROCESSES = sized(4, whole=8)
KEYS = 40
ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["sqlite", "postgres"])
def shared_url(request: pytest.FixtureRequest) -> str:
    """A database that several processes can use."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    if request.param == "sqlite":
        duly.store(url).open().close()
    return url


@pytest.fixture(params=["sync", "async"])
def racers(request: pytest.FixtureRequest, shared_url: str, scope: str) -> Iterator[list[Racer]]:
    """Processes that are ready to race."""
    started = [start(shared_url, scope, request.param) for _ in range(PROCESSES)]
    for racer in started:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    yield started
    for racer in started:
        racer.kill()
        racer.communicate()


Racer = subprocess.Popen[str]


def start(url: str, scope: str, colour: str) -> Racer:
    """One process, connected and waiting for the start."""
    command = [sys.executable, "-m", "tests.conformance.racer", url, scope, colour, str(KEYS)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)


@pytest.mark.slow
def test_of_several_processes_exactly_one_is_first_for_each_key(
    racers: list[Racer], shared_url: str, scope: str
) -> None:
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    outcomes = [racer.communicate(timeout=60)[0].split() for racer in racers]

    assert [len(each) for each in outcomes] == [KEYS] * PROCESSES
    for nth in range(KEYS):
        counted = Counter(each[nth] for each in outcomes)
        assert counted["first"] == 1, f"evt_{nth}: {counted}"
        assert counted["duplicate"] + counted["held"] == PROCESSES - 1
