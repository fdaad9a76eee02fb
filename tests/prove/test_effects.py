"""Handlers with `job.effect`: an effect that is parked waits for a person, and is not lost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from duly.prove import mistakes as known
from duly.prove.asks import EventAsk
from duly.prove.case_runner import ProofRequest
from duly.prove.databases import UnfinishedWork
from duly.prove.loader import Subject
from duly.prove.parked_jobs import waits_for_person
from duly.prove.prover import ProofOptions, prove_handler
from tests.prove.test_advice import mail
from tests.prove.test_assert import EVENT, shop

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import duly
    from duly.prove.proof import Verdict

pytestmark = pytest.mark.slow


def proved(path: Path, handler: Callable[..., Any], only: str | None = None) -> Verdict:
    app = shop(path, handler)
    ask = EventAsk("shop", json.dumps(EVENT).encode())
    verdict = prove_handler(
        lambda: Subject(app, None), ProofRequest((ask,), only=only), ProofOptions(), lambda _: None
    )
    app.close()
    return verdict


def test_an_effect_that_is_parked_is_an_ending_that_is_told_in_a_note(tmp_path: Path) -> None:
    def handler(job: duly.Job) -> None:
        job.effect("mail", lambda _: mail(), unknown="park")

    verdict = proved(tmp_path / "shop.db", handler)

    assert verdict.finding is None
    [note] = [note for note in verdict.notes if "unknown='park'" in note]
    assert "kill:" in note
    assert "pause:" in note
    assert "to ask a person" in note


def test_what_a_parked_job_does_twice_is_found(tmp_path: Path) -> None:
    def handler(job: duly.Job) -> None:
        httpx.post("https://bank.example/charges", json={"amount": 20})
        job.effect("mail", lambda _: mail(), unknown="park")

    finding = proved(tmp_path / "shop.db", handler).finding

    assert finding is not None
    assert finding.mistake.name == known.NO_KEY


def test_an_effect_that_is_taken_again_is_found(tmp_path: Path) -> None:
    def handler(job: duly.Job) -> None:
        job.effect("mail", lambda _: mail())

    finding = proved(tmp_path / "shop.db", handler).finding

    assert finding is not None
    assert finding.mistake.name == known.MAIL


def test_only_a_question_to_a_person_is_such_an_ending() -> None:
    asks = UnfinishedWork(
        "job", "handler", "dead", "Dead: it is unknown whether effect 'mail' happened (…)"
    )
    assert waits_for_person([asks])
    assert not waits_for_person([])
    assert not waits_for_person([asks, asks._replace(error="ValueError: the order is unknown")])
    assert not waits_for_person([asks._replace(state="ready")])
