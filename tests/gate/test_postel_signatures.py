"""Postel's conformance cases for receivers, as far as the gate answers them.

Duplicates are the ledger's business, so the gate accepts them; what it must get right here are
signatures, timestamps, headers, several secrets, raw bytes, and the choice of a key by its id.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import duly
from duly.gate import Provider, Secret, Source, StandardWebhooks
from tests.gate.postel import CODES, NOW, Case, cases, key, missing

if reason := missing():
    pytest.skip(reason, allow_module_level=True)

CASES = cases()
BY_KEY_ID = Provider("by-key-id", StandardWebhooks(key_id=r"(kid_[^.]+)\."), id="header:webhook-id")


def receiver() -> Source:
    """The receiver that the cases are written for."""
    ended = datetime(2025, 1, 1, tzinfo=UTC)
    return Source(
        BY_KEY_ID,
        [
            Secret(key("hmac_primary"), name="primary"),
            Secret(key("hmac_secondary"), name="secondary"),
            Secret(key("ed25519_a", "public_key"), name="a", key_id="kid_a"),
            Secret(key("ed25519_b", "public_key"), name="b", key_id="kid_b", not_after=ended),
        ],
        tolerance=timedelta(seconds=300),
    )


def answer(case: Case) -> str:
    try:
        duly.verify(receiver(), case.headers, case.body, now=NOW, method=case.method)
    except duly.Rejected as problem:
        return CODES[problem.code]
    return "accept"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_gate_answers_as_the_case_asks(case: Case) -> None:
    assert answer(case) == case.expected


def test_all_cases_of_a_receiver_are_there() -> None:
    assert len(CASES) >= 32
    assert {case.expected for case in CASES} == {"accept", *CODES.values()}


def test_the_secret_that_matched_is_named() -> None:
    by_name = {case.name: case for case in CASES}
    for name, secret in (
        ("signature-v1/valid", "primary"),
        ("receiver/multi-secret/old-secret-accept", "secondary"),
        ("jwks/kid-lookup", "a"),
    ):
        case = by_name[name]
        assert duly.verify(receiver(), case.headers, case.body, now=NOW).secret == secret
