"""The sample shop on SQLite: each planted mistake is found and told, what is right passes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import duly
from duly.prove.mistakes import BLIND_INSERT
from tests.prove.expected import MISTAKES, RIGHT, Mistaken
from tests.prove.proofs import EXAMPLE, proof, shop

if TYPE_CHECKING:
    from pathlib import Path

    from duly.prove.proof import Verdict

pytestmark = pytest.mark.slow


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = tmp_path / "shop.db"
    duly.store(f"sqlite:///{path}").migrate()
    return str(path)


def told(planted: Mistaken, verdict: Verdict) -> list[str]:
    """What the story must say; on a busy machine copies at once may show it before a kill."""
    killed = verdict.finding is not None and verdict.finding.case.shape == "kill"
    return [part for part in planted.story if killed or not part.startswith("killed after")]


@pytest.mark.parametrize("planted", MISTAKES, ids=lambda planted: planted.name)
def test_a_planted_mistake_is_found_and_told_with_its_remedy(
    planted: Mistaken, database: str
) -> None:
    verdict = proof(shop(EXAMPLE, database), *planted.events)

    assert verdict.finding is not None
    assert verdict.finding.mistake.name == planted.name
    assert [part for part in told(planted, verdict) if part not in verdict.finding.story] == []


@pytest.mark.parametrize("right", RIGHT, ids=lambda right: right[0])
def test_a_handler_that_is_right_passes(right: tuple[str, ...], database: str) -> None:
    verdict = proof(shop(EXAMPLE, database), *right)

    assert verdict.finding is None
    assert verdict.tried["kill"] >= 3


def test_a_worker_that_goes_on_after_its_lease_is_found(database: str) -> None:
    verdict = proof(shop(EXAMPLE, database), "invoice", only="pause:0")

    assert verdict.finding is not None
    assert verdict.finding.mistake.name == BLIND_INSERT
    assert verdict.finding.story.startswith(
        "paused after a worker had taken the job until its lease was over and another worker had "
        "done the job: bookings has the row (invoice='i-1', amount=20) 2 times instead of once."
    )


def test_the_database_is_put_back_as_it_was(database: str) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER)")
        connection.execute("INSERT INTO accounts VALUES (7, 41)")

    proof(shop(EXAMPLE, database), "points", only="kill:4")

    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT * FROM accounts").fetchall() == [(7, 41)]
        assert connection.execute("SELECT count(*) FROM duly_events").fetchone() == (0,)
