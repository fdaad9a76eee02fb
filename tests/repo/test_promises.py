"""Each promise is kept by tests on every store, sync and async, and the page that lists them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.interpreters import ROOT
from tests.support.promises import PROMISES, WITHOUT, Kept, empty_cells, promises_of

COMMAND = [sys.executable, "-m", "tests.support.promises", "--check"]


def test_every_promise_is_kept_on_every_store_and_the_page_says_by_what() -> None:
    done = subprocess.run(COMMAND, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stdout + done.stderr


def test_a_test_keeps_the_promises_that_it_is_marked_with(request: pytest.FixtureRequest) -> None:
    request.applymarker(pytest.mark.promise("I1", "machines"))
    assert promises_of(request.node) == ["I1", "machines"]


def test_an_unknown_promise_is_refused(request: pytest.FixtureRequest) -> None:
    request.applymarker(pytest.mark.promise("I15"))
    with pytest.raises(pytest.UsageError, match="keeps 'I15', which is not one of: I1, "):
        promises_of(request.node)


def test_a_promise_that_nobody_keeps_is_found() -> None:
    assert len(empty_cells({"I1": Kept()})) == 9
    assert len(empty_cells({"power cut": Kept()})) == 5


def test_only_cells_of_promises_are_left_empty() -> None:
    assert {name for name, _ in WITHOUT} <= set(PROMISES)
