"""A FastAPI and SQLAlchemy application, and a Django one: mistakes found, what is right passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duly.prove import mistakes as known
from tests.prove.proofs import ROOT, proof, shop

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

FASTAPI = ROOT / "examples" / "mistakes_fastapi" / "fastapi_shop.py"
DJANGO = ROOT / "examples" / "mistakes_django" / "django_shop.py"
TWICE = "2 times instead of once"
DELTA = "balance of id=7 is 300 instead of 200"
LONG = pytest.mark.long


@pytest.mark.parametrize(
    ("event", "mistake", "told"),
    [
        ("points", known.DELTA, DELTA),
        pytest.param("confirmed", known.NO_KEY, TWICE, marks=LONG),
        pytest.param("invoice", known.BLIND_INSERT, TWICE, marks=LONG),
    ],
)
def test_mistakes_of_handlers_on_sqlalchemy_are_found(
    event: str, mistake: str, told: str, tmp_path: Path
) -> None:
    verdict = proof(shop(FASTAPI, f"sqlite:///{tmp_path / 'shop.db'}"), event)

    assert verdict.finding is not None
    assert verdict.finding.mistake.name == mistake
    assert told in verdict.finding.story


@pytest.mark.wide
@pytest.mark.parametrize(
    ("event", "mistake", "told"),
    [
        pytest.param("points", known.DELTA, DELTA, marks=LONG),
        ("shipped", known.CHECK_THEN_ACT, TWICE),
        pytest.param("invoice", known.BLIND_INSERT, TWICE, marks=LONG),
    ],
)
def test_mistakes_of_handlers_on_django_are_found(
    event: str, mistake: str, told: str, tmp_path: Path
) -> None:
    verdict = proof(shop(DJANGO, str(tmp_path / "shop.db")), event)

    assert verdict.finding is not None
    assert verdict.finding.mistake.name == mistake
    assert told in verdict.finding.story


@pytest.mark.wide
@pytest.mark.parametrize(("file", "site"), [(FASTAPI, "api"), (DJANGO, "site")])
def test_what_a_route_does_before_the_claim_is_found(file: Path, site: str, tmp_path: Path) -> None:
    database = tmp_path / "shop.db"
    where = f"sqlite:///{database}" if file is FASTAPI else str(database)

    verdict = proof(shop(file, where, site), "partner", path="/partners")

    assert verdict.finding is not None
    assert verdict.finding.mistake.name == known.BEFORE_CLAIM
    assert verdict.finding.case.name == "twice"
    assert "visit" in verdict.finding.story


@pytest.mark.parametrize("event", ["payment", pytest.param("refund", marks=LONG)])
def test_handlers_on_sqlalchemy_that_are_right_pass(event: str, tmp_path: Path) -> None:
    verdict = proof(shop(FASTAPI, f"sqlite:///{tmp_path / 'shop.db'}"), event)

    assert verdict.finding is None
    assert verdict.tried["pause"] >= 1


@pytest.mark.parametrize("event", ["payment", pytest.param("paid", marks=LONG)])
def test_handlers_on_django_that_are_right_pass(event: str, tmp_path: Path) -> None:
    verdict = proof(shop(DJANGO, str(tmp_path / "shop.db")), event)

    assert verdict.finding is None
    assert verdict.tried["pause"] >= 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("event", "mistake"),
    [("points", known.DELTA), ("confirmed", known.NO_KEY), ("payment", None), ("refund", None)],
)
def test_the_same_holds_for_asyncpg(event: str, mistake: str | None, own_postgres_url: str) -> None:
    verdict = proof(shop(FASTAPI, own_postgres_url), event)

    assert (verdict.finding and verdict.finding.mistake.name) == mistake
