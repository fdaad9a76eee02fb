"""Which interpreters `make test` goes to is decided without running any of them."""

from pathlib import Path

import pytest

from tests.conftest import elsewhere
from tests.everywhere import Interpreter, allowed, candidates, newer

HERE = (3, 11, 7)


def python(*version: int) -> Interpreter:
    return Interpreter(version, Path("/opt/python") / ".".join(map(str, version)))


def test_each_later_series_is_tried_once_on_its_latest_release() -> None:
    found = [python(3, 13, 0), python(3, 12, 1), python(3, 12, 9), python(3, 12, 4)]
    assert newer(found, HERE) == [python(3, 12, 9), python(3, 13, 0)]


def test_the_series_that_runs_already_and_older_ones_are_left_out() -> None:
    found = [python(3, 9, 18), python(3, 11, 2), python(3, 11, 9)]
    assert newer(found, HERE) == []


def test_the_newest_is_tried_unless_a_limit_names_series_and_main_names_none() -> None:
    found = [python(3, 12, 1), python(3, 13, 0)]
    assert allowed(found, "") == [python(3, 13, 0)]
    assert allowed([], "") == []
    assert allowed(found, "all") == found
    assert allowed(found, "3.13, 3.14") == [python(3, 13, 0)]
    assert allowed(found, "main") == []


def test_candidates_come_from_path_and_from_pyenv_and_are_programs(tmp_path: Path) -> None:
    on_path, pyenv = tmp_path / "bin", tmp_path / "pyenv"
    theirs = pyenv / "versions" / "3.13.0" / "bin"
    for folder in (on_path, theirs):
        folder.mkdir(parents=True)
    for name in ("python3", "python3.12", "python3.12-config"):
        (on_path / name).touch()
    (theirs / "python3.13").touch()
    found = candidates({"PATH": str(on_path), "PYENV_ROOT": str(pyenv)})
    assert found[:2] == [on_path / "python3.12", theirs / "python3.13"]


@pytest.mark.parametrize("store", ["memory", "sqlite", "memory-async"])
def test_what_is_promised_in_memory_is_left_to_the_newest(
    store: str, request: pytest.FixtureRequest
) -> None:
    assert elsewhere(request.node) == store.startswith("memory")


@pytest.mark.slow
@pytest.mark.parametrize("store", ["memory"])
def test_what_is_slow_is_left_to_nobody(store: str, request: pytest.FixtureRequest) -> None:
    assert not elsewhere(request.node)


def test_what_only_speaks_of_memory_is_left_to_nobody(request: pytest.FixtureRequest) -> None:
    assert not elsewhere(request.node)
