"""The sample shop on PostgreSQL."""

from __future__ import annotations

import psycopg
import pytest

from tests.proving.expected import MISTAKES, RIGHT, Mistaken
from tests.proving.proofs import APPS, proof, shop

SHOP = APPS / "postgres_shop.py"


@pytest.mark.parametrize("planted", MISTAKES, ids=lambda planted: planted.name)
def test_a_planted_mistake_is_found_and_told_with_its_remedy(
    planted: Mistaken, own_postgres_url: str
) -> None:
    verdict = proof(shop(SHOP, own_postgres_url), *planted.events)

    assert verdict.finding is not None
    assert verdict.finding.mistake.name == planted.name
    assert [part for part in planted.story if part not in verdict.finding.story] == []


@pytest.mark.parametrize("right", RIGHT, ids=lambda right: right[0])
def test_a_handler_that_is_right_passes(right: tuple[str, ...], own_postgres_url: str) -> None:
    verdict = proof(shop(SHOP, own_postgres_url), *right)

    assert verdict.finding is None
    assert verdict.tried["kill"] >= 3


def test_the_database_is_put_back_as_it_was(own_postgres_url: str) -> None:
    with psycopg.connect(own_postgres_url) as connection:
        connection.execute("CREATE TABLE accounts (id integer PRIMARY KEY, balance integer)")
        connection.execute("INSERT INTO accounts VALUES (7, 41)")

    proof(shop(SHOP, own_postgres_url), "points", only="twice")

    with psycopg.connect(own_postgres_url) as connection:
        assert connection.execute("SELECT * FROM accounts").fetchall() == [(7, 41)]
        assert connection.execute("SELECT count(*) FROM duly_events").fetchone() == (0,)
