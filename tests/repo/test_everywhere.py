"""Which interpreters `make test` goes to is decided without running any of them.

The second look is tried on small suites that pytest really runs.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.conftest import elsewhere
from tests.support.everywhere import (
    FAILED,
    NOTHING,
    PASSED,
    QUICK,
    Asked,
    Outcome,
    Run,
    exit_code,
    run_pytest,
    split_proofs,
    warnings,
)
from tests.support.failing import ungrouped
from tests.support.interpreters import ROOT, Interpreter, allowed, candidates, newer, oldest

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


def test_the_oldest_release_that_duly_takes_is_tried_if_it_is_older_than_this_one() -> None:
    found = [python(3, 10, 13), python(3, 13, 0), python(3, 11, 7), python(3, 11, 2)]
    assert oldest(found, HERE, "") == [python(3, 11, 2)]
    assert oldest(found, (3, 11, 2), "") == []
    assert oldest(found, (3, 13, 0), "") == [python(3, 11, 2)]


def test_a_limit_leaves_the_oldest_out_unless_it_names_it() -> None:
    found = [python(3, 11, 2), python(3, 12, 1)]
    assert oldest(found, HERE, "main") == []
    assert oldest(found, HERE, "3.12") == []
    assert oldest(found, HERE, "3.12, 3.11.2") == [python(3, 11, 2)]
    assert oldest(found, HERE, "all") == [python(3, 11, 2)]


@pytest.mark.parametrize(
    ("options", "tests", "proofs"),
    [
        ([], [], ["tests/prove"]),
        (["-k", "once", "-x"], ["-k", "once", "-x"], ["tests/prove", "-k", "once", "-x"]),
        (["-k", "tests"], ["-k", "tests"], ["tests/prove", "-k", "tests"]),
        (["tests", "-x"], ["tests", "-x"], ["tests/prove", "-x"]),
        (["tests/webhooks", "-q"], ["tests/webhooks", "-q"], None),
        (["tests/core/test_core.py::test_a"], ["tests/core/test_core.py::test_a"], None),
        (["tests/prove"], None, ["tests/prove"]),
        (["tests/prove/test_page.py::test_a", "-x"], None,
         ["tests/prove/test_page.py::test_a", "-x"]),
        (["tests/webhooks", "tests/prove/test_page.py"], ["tests/webhooks"],
         ["tests/prove/test_page.py"]),
    ],
)  # fmt: skip
def test_proofs_run_in_a_pytest_of_their_own_whatever_is_asked_for(
    options: list[str], tests: list[str] | None, proofs: list[str] | None
) -> None:
    assert split_proofs(options) == Asked(tests, proofs)


def test_a_run_with_other_tests_leaves_the_proofs_to_another_pytest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also by hand, with a single Python on the machine, and on every interpreter."""
    monkeypatch.delenv("DULY_TEST_PART", raising=False)
    mixed = collected("tests/core/test_core.py", "tests/prove/test_calls.py")
    assert "tests/core/test_core.py" in mixed
    assert "tests/prove/" not in mixed
    assert "tests/prove/test_calls.py" in collected("tests/prove/test_calls.py")


def collected(*paths: str) -> str:
    """What pytest would run."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", *paths]
    told = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return told.stdout


def test_no_example_of_a_property_is_bounded_in_time() -> None:
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check


def test_the_quick_part_is_there_and_has_a_proof() -> None:
    assert [name for name in QUICK if not (ROOT / name).is_file()] == []
    assert split_proofs(QUICK).proofs


def outcome_of(verdict: str) -> Outcome:
    return Outcome(HERE, verdict, 1.0)


def test_a_run_passes_if_nothing_failed_and_something_ran() -> None:
    assert exit_code([outcome_of(PASSED), outcome_of(NOTHING)]) == 0
    assert exit_code([outcome_of(PASSED), outcome_of(FAILED)]) == 1
    assert exit_code([outcome_of(PASSED), outcome_of(f"{FAILED} (no environment)")]) == 1
    assert exit_code([outcome_of(NOTHING), outcome_of(NOTHING)]) == 5


@pytest.mark.parametrize("name", ["locked", "x" * 300])
def test_a_folder_that_cannot_be_read_has_no_pythons(tmp_path: Path, name: str) -> None:
    """Root's own pyenv, seen by another user; root reads every folder, but no name of 300."""
    folder = tmp_path / name
    if name == "locked":
        folder.mkdir(mode=0)
    found = candidates({"PATH": f"{folder}/bin", "PYENV_ROOT": str(folder)})
    assert not [path for path in found if path.is_relative_to(tmp_path)]


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


# Passes from the second time on; the file that it leaves is what "once" means here.
UNLUCKY = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("way", ["a/b::c[d]", "e@f"])
def test_unlucky(way):
    seen = Path(f"seen-{way[0]}")
    before, _ = seen.exists(), seen.touch()
    assert before

def test_steady():
    pass
"""
UNLUCKY_NODES = ("test_one.py::test_unlucky[a/b::c[d]]", "test_one.py::test_unlucky[e@f]")

Tried = Callable[..., Outcome]


@pytest.fixture
def tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tried:
    """Runs a suite of one file as `make test` does."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p xdist.plugin\n")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # starts in a third of the time
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("DULY_TEST_FAILED", "")  # it is set for the tests' own tests, too
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)

    def run(text: str, *options: str) -> Outcome:
        (tmp_path / "test_one.py").write_text(text)
        return run_pytest(Path(sys.executable), HERE, Run(options, 0))

    return run


def test_what_fails_once_and_passes_alone_has_passed_and_is_named(tried: Tried) -> None:
    outcome = tried(UNLUCKY, "-n", "1")
    assert outcome.verdict == PASSED
    assert sorted(outcome.unsteady) == sorted(UNLUCKY_NODES)
    assert f"UNSTEADY: {UNLUCKY_NODES[0]} failed once and passed alone: mend it" in warnings(
        [outcome]
    )


def test_what_fails_again_fails_the_run(tried: Tried) -> None:
    outcome = tried(UNLUCKY + "\n\ndef test_broken():\n    assert False\n", "-n", "0")
    assert outcome.verdict == FAILED
    assert warnings([outcome]) == []


def test_more_than_three_failures_are_not_bad_luck(tried: Tried) -> None:
    crowd = UNLUCKY.replace('["a/b::c[d]", "e@f"]', "list('abcd')")
    assert tried(crowd, "-n", "0").verdict == FAILED


def test_a_run_that_was_cut_short_gets_no_second_look(tried: Tried) -> None:
    assert tried(UNLUCKY, "-n", "0", "-x").verdict == FAILED


@pytest.mark.parametrize(
    ("node", "name"),
    [
        ("a.py::b@group", "a.py::b"),
        ("a.py::b[c]@group", "a.py::b[c]"),
        ("a.py::b[c@d]", "a.py::b[c@d]"),
        ("a@b/c.py::d", "a@b/c.py::d"),
    ],
)
def test_a_node_is_named_without_its_group(node: str, name: str) -> None:
    assert ungrouped(node) == name
