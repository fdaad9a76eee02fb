"""A module that a planted bug or a setting names by a text is there."""

import ast
import re
from pathlib import Path

import pytest
from verification.mutation.shelf import Mutant, shelf

from tests.repo.render_outside import SNAPSHOTS, SOURCES

ROOT = SOURCES.parent
DOTTED = re.compile(r"duly(\.[a-z_0-9]+){2,}")
LOGGERS = set(SNAPSHOTS["loggers"]())
NAMING = ("src", "tests", "verification", "benchmarks")


@pytest.mark.parametrize("mutant", shelf(), ids=lambda mutant: mutant.name)
def test_what_a_planted_bug_changes_is_there(mutant: Mutant) -> None:
    assert [change.path for change in mutant.changes if not (ROOT / change.path).is_file()] == []


def test_what_is_loaded_by_a_text_is_there() -> None:
    texts = {
        text
        for folder in NAMING
        for path in (ROOT / folder).rglob("*.py")
        for text in dotted_texts(path)
    }
    assert texts, "the search finds nothing any more"
    assert sorted(text for text in texts if not leads_to_a_module(text)) == []


def dotted_texts(path: Path) -> set[str]:
    """The texts in a file that are the dotted path of something in duly, and nothing else."""
    nodes = ast.walk(ast.parse(path.read_text()))
    texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
    return {text for text in texts if isinstance(text, str) and DOTTED.fullmatch(text)} - LOGGERS


def leads_to_a_module(text: str) -> bool:
    """Whether a path, or a beginning of it below `duly`, is a module; the rest are its names."""
    parts = text.split(".")
    paths = [SOURCES.joinpath(*parts[:end]) for end in range(len(parts), 1, -1)]
    return any(path.is_dir() or path.with_suffix(".py").is_file() for path in paths)
