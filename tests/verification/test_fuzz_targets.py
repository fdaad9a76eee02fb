"""The fuzz targets keep working where nobody fuzzes: fixed inputs, no atheris."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from verification.fuzz import targets
from verification.fuzz.__main__ import MISSING, main
from verification.fuzz.campaign import Outcome, follow
from verification.fuzz.script import Script

from tests.webhooks.arena import CASES, sample_of

ROOT = Path(__file__).parents[2]
INPUTS = 150


def inputs(name: str) -> list[bytes]:
    """Pseudo-random inputs, the same in every run, and the seeds."""
    dice = random.Random(f"duly {name}")
    made = [dice.randbytes(dice.choice((2, 10, 40, 300))) for _ in range(INPUTS)]
    return [*made, *targets.seeds(name)[:100]]


@pytest.mark.parametrize("name", targets.NAMES)
def test_no_fixed_input_breaks_a_promise(name: str) -> None:
    tried = targets.target(name)
    for data in inputs(name):
        tried(data)


def test_every_case_belongs_to_one_target() -> None:
    named = [case.name for name in targets.NAMES for case in targets.cases_of(name)]
    assert sorted(named) == sorted(CASES)


@pytest.mark.parametrize("name", targets.NAMES)
def test_the_inputs_reach_all_ways(name: str) -> None:
    ways = {data[1] % 4 for data in inputs(name) if len(data) > 1}
    assert ways == {0, 1, 2, 3}


def test_a_verified_delivery_without_a_right_signature_is_a_broken_promise() -> None:
    case, other = CASES["github"], CASES["gitlab-2"]
    arrival = sample_of("github")
    careless = replace(other, name="github")  # takes any delivery that shows a token
    object.__setattr__(careless, "keys", case.keys)
    shown = replace(arrival, headers=sample_of("gitlab-2").headers)
    with pytest.raises(targets.Broken, match="without a right signature"):
        targets.try_unsigned(careless, shown)


def test_a_rejected_genuine_delivery_is_a_broken_promise() -> None:
    case = CASES["github"]
    deaf = replace(case)
    object.__setattr__(deaf, "source", CASES["stripe"].source)
    with pytest.raises(targets.Broken, match="a genuine delivery was rejected"):
        targets.try_signed(deaf, Script(b"\0\0\0\0{}"))


def test_a_crash_is_told_from_a_good_end() -> None:
    outcome = Outcome("hmac")
    printed = [
        "#1024\tpulse  cov: 77 ft: 100 corp: 9/1Kb exec/s: 512 rss: 60Mb\n",
        " === Uncaught Python exception: ===\n",
        "Test unit written to .cache/fuzz/hmac/crash-0123\n",
        "stat::number_of_executed_units: 2048\n",
    ]
    follow(outcome, iter(printed), 0.0)
    assert (outcome.executions, outcome.coverage) == (2048, 77)
    assert not outcome.good
    assert outcome.reproduction().endswith(
        "-m verification.fuzz hmac --input .cache/fuzz/hmac/crash-0123"
    )


def test_a_saved_input_is_tried_again_without_atheris(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "crash-1"
    saved.write_bytes(b"\0\0\0\0\0\0{}")
    assert main(["hmac", "--input", str(saved)]) == 0
    assert "breaks nothing" in capsys.readouterr().out


def test_the_message_names_the_pythons_that_have_atheris() -> None:
    assert "CPython 3.11 to 3.14" in MISSING


def test_an_unknown_scheme_is_refused_with_the_ones_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["rot13"])
    assert "hmac" in capsys.readouterr().err


def test_help_names_the_schemes() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "verification.fuzz", "--help"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    for name in targets.NAMES:
        assert name in ended.stdout
