"""Every regular expression of duly is read alike by every Python that duly runs on.

Possessive quantifiers and atomic groups came with Python 3.11, and until 3.11.5 they matched
differently when they stood over a group (CPython's gh-106052). A redaction that relies on them
shows part of a secret there. Debian 12 has 3.11.2, so duly uses neither. The sources are parsed
rather than run: this is red on every Python, not only on those with the fault.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Any

import pytest

import duly

SOURCES = Path(duly.__file__).parent
REFUSED = {"POSSESSIVE_REPEAT", "ATOMIC_GROUP"}
parser: Any = importlib.import_module("re._parser")


def patterns_of(source: str) -> list[tuple[int, str | bytes]]:
    """The expressions handed to `re`, with their lines; a value put into one counts as a letter."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.") and node.args:
            text = written(node.args[0])
            if text is not None:
                found.append((node.lineno, text))
    return found


def written(node: ast.expr) -> str | bytes | None:
    """A literal's text; a name stands for an expression that is written elsewhere."""
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "x" for part in node.values]
        return "".join(map(str, parts))
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str | bytes) else None


def refused_parts(pattern: str | bytes) -> set[str]:
    """Which of the refused constructs an expression has, at any depth."""
    found: set[str] = set()
    waiting: list[Any] = [parser.parse(pattern)]
    while waiting:
        part = waiting.pop()
        if isinstance(part, parser.SubPattern | list | tuple):
            waiting += list(part)
        elif str(part) in REFUSED:
            found.add(str(part))
    return found


@pytest.mark.parametrize(
    "pattern", ["a++", "a*+", "a?+", "a{2,}+", "(?>a)", "(?:a|b)*+", "x(y(?=z*+))", b"[a-z]++"]
)
def test_each_refused_construct_is_found_wherever_it_stands(pattern: str | bytes) -> None:
    assert refused_parts(pattern)


@pytest.mark.parametrize("pattern", ["[a*+]+", r"\++", "(?:a|b)*", r"(?!a)a{2,}", b"[!*+]"])
def test_a_pattern_with_plain_quantifiers_is_left_alone(pattern: str | bytes) -> None:
    assert not refused_parts(pattern)


def test_no_pattern_of_duly_depends_on_a_patch_release() -> None:
    checked = 0
    faults = []
    for path in sorted(SOURCES.rglob("*.py")):
        for line, pattern in patterns_of(path.read_text()):
            checked += 1
            for fault in refused_parts(pattern):
                faults.append(f"{path.relative_to(SOURCES)}:{line}: {fault}")
    assert faults == []
    assert checked > 50  # the sources were really found
