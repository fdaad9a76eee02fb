"""Operations ask a session what it can; only stores ask which database it is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import duly

SOURCES = Path(duly.__file__).parent
OPERATIONS = ("ledger", "inbox", "jobs", "outbox", "service", "receiver", "worker", "relay", "app")


@pytest.mark.parametrize("package", OPERATIONS)
def test_no_operation_asks_for_the_dialect(package: str) -> None:
    asked = [
        f"{path.relative_to(SOURCES)}:{node.lineno}"
        for path in sorted((SOURCES / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "dialect"
    ]
    assert asked == []
