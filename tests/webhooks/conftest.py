"""How many vectors of each provider were tried: said at the end of every run, also of a good one.

Counted from the reports, which reach the process that prints them also from the workers of xdist.
That process collects nothing and so does not know of this file by itself: ``tests/conftest.py``
tells it.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

# The first word of such a test's parameter is the provider.
VECTOR = re.compile(r"test_(vectors|own_providers)\.py::test_a_vector_has_[^\[]*\[([^/\]]+)/")
TITLES = {"vectors": "gate vectors", "own_providers": "gate vectors of own providers"}
# The hook is found twice where this folder's conftest is loaded as well.
SAID = pytest.StashKey[bool]()


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """One line for each of the two suites of vectors, where it was run."""
    if terminalreporter.config.stash.setdefault(SAID, False):
        return
    terminalreporter.config.stash[SAID] = True
    tried: dict[str, Counter[str]] = {name: Counter() for name in TITLES}
    skipped: Counter[str] = Counter()
    for report in reports(terminalreporter):
        if found := VECTOR.search(report.nodeid):
            tried[found.group(1)][found.group(2)] += 1
            skipped[found.group(1)] += report.skipped
    for name, counts in tried.items():
        if counts:
            each = ", ".join(f"{provider} {count}" for provider, count in sorted(counts.items()))
            total = f"{counts.total()} in all, {skipped[name]} skipped"
            terminalreporter.write_line(f"{TITLES[name]}: {each} — {total}")


def reports(terminalreporter: TerminalReporter) -> list[pytest.TestReport]:
    """One report for each test that ran or was skipped."""
    return [
        report
        for outcome in ("passed", "failed", "skipped", "error")
        for report in terminalreporter.getreports(outcome)
        if report.when == "call" or not report.passed
    ]
