"""Every case of Postel for receivers, over HTTP, against the real server on every store."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.server.hostile.servers import serving
from tests.webhooks.postel.runner import Runner, allows
from tests.webhooks.postel.serving import public_keys
from tests.webhooks.postel.vectors import cases, missing

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

if reason := missing():
    pytest.skip(reason, allow_module_level=True)

CASES = cases()
ALL = 33
FACTORY = "tests.webhooks.postel.serving:application"


@pytest.fixture(params=["sqlite", "memory", "postgres"])
def store(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The name of a store and its address; nothing is in it yet."""
    name: str = request.param
    fixtures = {"sqlite": "sqlite_url", "postgres": "own_postgres_url"}
    url = request.getfixturevalue(fixtures[name]) if name in fixtures else "memory:"
    return name, url


def test_a_receiver_answers_every_case_as_it_asks(
    store: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, url = store
    with serving(url, tmp_path, server="uvicorn", factory=FACTORY) as server:
        runner = Runner(server.address)
        observed = {str(case): runner.outcomes(case) for case in CASES}
        server.check_alive()
    wrong = {
        str(case): f"{observed[str(case)]} instead of {case.outcomes}"
        for case in CASES
        if observed[str(case)] != case.outcomes
    }
    assert not wrong, wrong
    assert len(observed) >= ALL
    with capsys.disabled():
        print(f"\npostel: {len(observed)} of {len(observed)} on {name}", file=sys.stderr)


def test_all_cases_of_a_receiver_are_there() -> None:
    assert len({case.name for case in CASES}) >= ALL
    assert sum(case.seen_before for case in CASES) >= 3
    assert any(len(case.outcomes) > 1 for case in CASES)
    assert any(case.schema is not None for case in CASES)


def test_a_private_key_among_the_public_ones_would_be_seen() -> None:
    [schema] = [case.schema for case in CASES if case.schema is not None]
    keys = public_keys()
    assert allows({"keys": keys}, schema)
    for private in ("d", "k"):
        assert not allows({"keys": [*keys, {**keys[0], private: "AA"}]}, schema)
    assert not allows({"keys": {}}, schema)
    assert not allows([], schema)
    assert not allows({}, schema)
