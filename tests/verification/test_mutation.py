"""Planted bugs: every patch applies to the sources as they are, and one is really planted."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from verification.mutation import shelf as shelves
from verification.mutation.command import main
from verification.mutation.copies import ROOT
from verification.mutation.patching import Change, Stale, changes_of
from verification.mutation.shelf import Mutant, Unreadable, mutant_of, shelf
from verification.mutation.trials import Run, judged

UNHARMED = "sqlite-sync/a is not whole unharmed: "
VIOLATED = (
    "\nVIOLATED: sqlite-sync/a/b/0/after/kill\n  {}\n  repro: python -m verification.crash_matrix"
)

if TYPE_CHECKING:
    from pathlib import Path


LEAST = 18
# The quickest of all: two tests on a file of SQLite's.
CHEAP = "28-deferred-transactions"
HEAD = "It is wrong.\nIt hurts.\nbreaks: I1, I2\ncaught-by: python -m pytest\ncaught-saying: I1:\n"
DIFF = "--- a/a.sql\n+++ b/a.sql\n@@ -2,2 +2 @@\n--- a comment\n SELECT 1\n"


def test_every_planted_bug_still_applies(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().out
    assert len(shelf()) >= LEAST


def named(mutant: Mutant) -> str:
    return mutant.name


@pytest.mark.parametrize("mutant", shelf(), ids=named)
def test_every_planted_bug_says_who_finds_it_and_by_what_words(mutant: Mutant) -> None:
    assert re.fullmatch(r"\d\d-[a-z-]+", mutant.name)
    assert mutant.defect.endswith(".")
    assert mutant.harm.endswith(".")
    assert mutant.words[:2] == ["python", "-m"]
    tests = [word for word in mutant.words if word.endswith(".py")]
    assert all((ROOT / path).is_file() for path in tests)
    assert all(mutant.phrase.startswith(f"FAILED {path}::test_") for path in tests)
    assert all(change.path.startswith("src/duly/") for change in mutant.changes)


def test_the_page_about_the_proofs_has_a_row_for_each_in_its_own_words() -> None:
    page = (ROOT / "docs" / "proof.md").read_text().splitlines()
    rows = [line.split(" | ") for line in page if re.match(r"\| \d\d-", line)]
    told = [(cells[0].removeprefix("| "), cells[1], cells[2]) for cells in rows]
    assert told == [(one.name, one.defect, one.harm) for one in shelf()]
    for cells, mutant in zip(rows, shelf(), strict=True):
        said = re.sub(r"^FAILED .*::", "", mutant.phrase)
        assert cells[3].endswith(f": `{said}` |")


def test_they_are_numbered_without_a_gap() -> None:
    numbers = [int(mutant.name[:2]) for mutant in shelf()]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.slow
def test_a_planted_bug_is_caught_by_a_command_that_is_green_without_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = main(["--only", CHEAP, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (code, told["caught"], told["total"]) == (0, 1, 1), told


def folder_with(folder: Path, text: str) -> Path:
    """A tree of one file."""
    (folder / "a.sql").write_text(text)
    return folder


def change(diff: str = DIFF) -> Change:
    [found] = changes_of(diff)
    return found


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("-- 1\n-- a comment\nSELECT 1\n", "-- 1\nSELECT 1\n"),
        ("-- 1\n-- 2\n-- 3\n-- a comment\nSELECT 1\n", "-- 1\n-- 2\n-- 3\nSELECT 1\n"),
    ],
    ids=["where it was", "further down"],
)
def test_lines_are_changed_where_they_are(tmp_path: Path, text: str, after: str) -> None:
    assert change().changed(folder_with(tmp_path, text)) == after


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("-- a comment\nSELECT 2\n", "not there any more"),
        ("SELECT 0\n\n-- a comment\nSELECT 1\n-- a comment\nSELECT 1\n", "there 2 times"),
    ],
    ids=["gone", "twice"],
)
def test_a_patch_that_no_longer_fits_says_where(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(Stale, match=rf"a\.sql: the lines from 2 on .* {why}"):
        change().changed(folder_with(tmp_path, text))
    with pytest.raises(Stale, match=r"a\.sql is gone"):
        change().changed(tmp_path / "elsewhere")


def test_a_stale_patch_fails_the_command_and_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "01-old.patch").write_text(HEAD + DIFF)
    monkeypatch.setattr(shelves.shelf, "__defaults__", (tmp_path,))
    assert main([]) == 2
    said = capsys.readouterr().out
    assert "01-old" in said
    assert "a.sql is gone: see what became of those lines" in said


@pytest.mark.parametrize("missing", range(4))
def test_a_patch_without_a_whole_head_is_refused_with_the_remedy(
    tmp_path: Path, missing: int
) -> None:
    lines = HEAD.splitlines()
    path = tmp_path / "01-bad.patch"
    path.write_text("\n".join(lines[:missing] + lines[missing + 1 :]) + f"\n{DIFF}")
    with pytest.raises(Unreadable, match="write two lines above the diff"):
        mutant_of(path)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (Run(1, VIOLATED.format("I1: it is not there"), 0.1), "caught"),
        (
            Run(1, "the lane broke: [I1: it is not there]", 0.1),
            "wrong reason",
        ),
        (Run(1, VIOLATED.format("I1: gone: NameError: no_such_name"), 0.1), "wrong reason"),
        (Run(1, VIOLATED.format("I2: it is there twice"), 0.1), "wrong reason"),
        (Run(0, "I1: what is checked", 0.1), "missed"),
        (Run(None, "I1: it is not there", 0.1), "hung"),
    ],
)
def test_red_counts_only_for_the_right_reason(found: Run, verdict: str) -> None:
    mutant = Mutant("01", "", "", "python -m verification.crash_matrix --quick", "I1:", [])
    assert judged(found, mutant) == verdict


@pytest.mark.parametrize(
    ("reason", "verdict"),
    [
        ("assert 2 == 1", "caught"),
        ("AssertionError: twice", "caught"),
        ("Failed: DID NOT RAISE", "caught"),
        ("duly.errors.Rejected: BAD_SIGNATURE: no signature matches", "caught"),
        ('sqlite3.OperationalError: near "FORM": syntax error', "wrong reason"),
        ("KeyError: 'state'", "wrong reason"),
    ],
)
def test_a_test_that_broke_before_its_question_has_found_nothing(reason: str, verdict: str) -> None:
    mutant = Mutant("01", "", "", "python -m pytest -q a.py", "FAILED a.py::test_it", [])
    assert judged(Run(1, f"1 failed\nFAILED a.py::test_it[x] - {reason}\n", 0.1), mutant) == verdict
