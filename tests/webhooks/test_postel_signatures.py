"""Postel's conformance cases for receivers, as far as the gate answers them.

Duplicates are the ledger's business, so the gate accepts them; what it must get right here are
signatures, timestamps, headers, several secrets, raw bytes, and the choice of a key by its id.
"""

from __future__ import annotations

import pytest

import duly
from duly.webhooks import Source
from tests.webhooks.postel.vectors import (
    BY_KEY_ID,
    CODES,
    NOW,
    TOLERANCE,
    Case,
    cases,
    missing,
    secrets,
)

if reason := missing():
    pytest.skip(reason, allow_module_level=True)

# The one that asks for the public keys is the server's.
CASES = [case for case in cases() if case.method == "POST"]


def receiver() -> Source:
    """The receiver that the cases are written for."""
    return Source(BY_KEY_ID, secrets(), tolerance=TOLERANCE)


def answer(case: Case) -> str:
    try:
        duly.verify(receiver(), case.headers, case.body, now=NOW, method=case.method)
    except duly.errors.Rejected as problem:
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
