"""Writes down which tests failed, by node id, for the second look of tests/support/everywhere.py.

A plugin for pytest: `-p tests.support.failing`, with a file's path in DULY_TEST_FAILED. The file
then has one JSON string per failure, as pytest reports it: also that of a test whose worker died.
"""

import json
import os
from pathlib import Path

import pytest

WRITTEN = "DULY_TEST_FAILED"


class Failing:
    """Asks for every report, and keeps the bad ones."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test failed: while it was set up, called or taken down."""
        if report.failed:
            self._add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file could not be read at all."""
        if report.failed:
            self._add(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A run that was cut short, as by -x, does not know what else would have failed."""
        if session.shouldfail or session.shouldstop:
            self.path.unlink(missing_ok=True)

    def _add(self, node: str) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(node) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    # Workers of xdist pass their reports on to the process that started them.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Failing(Path(os.environ[WRITTEN])))


def written(path: Path) -> list[str]:
    """The node ids in the file, each once, as pytest takes them on its command line."""
    lines = path.read_text().splitlines() if path.exists() else []
    return list(dict.fromkeys(ungrouped(json.loads(line)) for line in lines))


def ungrouped(node: str) -> str:
    """Without the @group that xdist adds behind the name of a test."""
    name, at, group = node.rpartition("@")
    return name if at and "]" not in group and "/" not in group else node
