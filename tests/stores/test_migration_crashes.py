"""A migrator may die at any statement: every migration is there whole, or not at all."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.catalogs import Catalog, catalog, facts
from tests.support.migrators import (
    LATER,
    Crashed,
    Order,
    Trap,
    crash,
    earlier_duly,
    later_migration,
    migrated,
    steps_of,
    trapped,
)
from tests.support.sizes import sized

ROOT = Path(__file__).parents[2]
NAMES = [
    "0001_ledger",
    "0002_inbox",
    "0003_jobs",
    "0004_outbox",
    "0005_effects",
    "0006_first_due",
    "0007_first_delivery",
    LATER.name,
]


@pytest.fixture(params=["postgres", "sqlite"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What an address starts with: one PostgreSQL database, or a folder for SQLite files."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/"
    url: str = request.getfixturevalue("empty_postgres_url")
    return url


def order(folder: str, step: int) -> Order:
    """A place of its own for each crash: a prefix, and on SQLite a file."""
    prefix = f"step_{step:03}_"
    return (f"{folder}{prefix}.db" if folder.startswith("sqlite") else folder, prefix, step)


def whole_states(folder: str) -> list[Catalog]:
    """What a place looks like with none of the migrations, and after each of them."""
    url, prefix, _ = order(folder, 998)
    states = [catalog(url, prefix)]
    for version, name in enumerate(NAMES, start=1):
        with later_migration(), earlier_duly(version):
            assert migrated(url, prefix) == [name]
        states.append(catalog(url, prefix))
    return states


def assert_whole_and_resumable(place: Order, states: list[Catalog]) -> int:
    """Nothing is half there, and the next migrator goes on from it; return what was there."""
    url, prefix, step = place
    found = catalog(url, prefix)
    assert found in states, f"step {step} left something half done"
    version = states.index(found)
    assert facts(url, prefix).get("migrated_to", "0") == str(version)
    with later_migration():
        assert migrated(url, prefix) == NAMES[version:]
    assert catalog(url, prefix) == states[-1]
    noted = facts(url, prefix)
    assert noted.pop("installation_id")
    assert noted == {"schema_version": str(LATER.number), "migrated_to": str(LATER.number)}
    return version


@pytest.mark.long  # the killed one, below, shows the same
def test_a_migrator_that_fails_at_any_statement_leaves_each_migration_whole(folder: str) -> None:
    states = whole_states(folder)
    versions = set()
    for step in range(steps_of(*order(folder, 999)[:2])):
        url, prefix, _ = place = order(folder, step)
        with later_migration(), trapped(Trap(step, crash)), pytest.raises(Crashed):
            migrated(url, prefix)
        versions.add(assert_whole_and_resumable(place, states))
    assert versions == set(range(len(NAMES) + 1))


@pytest.mark.slow
def test_a_migrator_that_is_killed_at_any_statement_leaves_each_migration_whole(
    folder: str,
) -> None:
    states = whole_states(folder)
    steps = range(0, steps_of(*order(folder, 999)[:2]), sized(3, whole=1))
    places = [order(folder, step) for step in steps]
    answer = subprocess.run(
        [sys.executable, "-m", "tests.support.migrators"],
        input=json.dumps(places),
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    assert json.loads(answer.stdout) == [signal.SIGKILL] * len(places)
    assert {assert_whole_and_resumable(place, states) for place in places} == set(
        range(len(NAMES) + 1)
    )
