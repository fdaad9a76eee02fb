"""The walk of one delivery stays as short as CONTRIBUTING says, and leads where it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.repo.walk import ENTRIES, ROOT, trace_delivery

pytestmark = pytest.mark.slow

PAGE = (ROOT / "CONTRIBUTING.md").read_text()
FIGURES = re.compile(r"(\d+) functions, (\d+) files, (\d+) package changes")


def section(title: str) -> str:
    """The text below one heading of CONTRIBUTING."""
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_one_delivery_passes_no_more_than_contributing_says(own_postgres_url: str) -> None:
    walk = trace_delivery(own_postgres_url)
    functions, files, changes = map(int, FIGURES.findall(PAGE)[0])
    assert {step[:2] for step in walk.steps} >= set(ENTRIES)
    assert len(walk.steps) <= functions, walk.summary()
    assert len(walk.files) <= files, walk.summary()
    # Where two of its parts overlap in time, one function may be met a little earlier.
    assert len(walk.packages) - 1 <= changes + 2, walk.summary()
    rows = [line for line in section("The walk of one delivery").splitlines() if line[:1] == "|"]
    guide = re.findall(r"`([a-z_0-9/]+\.py)`", "\n".join(rows))
    assert set(guide) <= set(walk.files)


def test_the_files_of_the_ten_questions_exist() -> None:
    answers = re.findall(r"`((?:src|tests|verification|docs)/[\w./-]+)`", section("Ten questions"))
    assert len(answers) >= 10
    assert [path for path in answers if not (ROOT / Path(path)).exists()] == []
