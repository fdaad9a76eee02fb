"""The benchmarks run and report; how fast anything is, no test says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run_benchmarks(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_last_line_of_a_suite_is_one_object_with_a_row_for_each_measure() -> None:
    ended = run_benchmarks("claims", "--quick", "--store", "sqlite")
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout.splitlines()[-1])
    assert set(report) == {"suite", "rows"}
    assert report["suite"] == "claims"
    names = [row["name"] for row in report["rows"]]
    assert len(names) == len(set(names)) == 16
    for row in report["rows"]:
        store, colour, _ = row["name"].split("/")
        assert (store, colour) in {("sqlite", "sync"), ("sqlite", "async")}
        assert set(row) == {"name", "ours", "peer", "ratio"}
        assert min(row["ours"], row["peer"], row["ratio"]) > 0


def test_every_row_stands_in_the_table_before_the_object() -> None:
    ended = run_benchmarks("claims", "--quick", "--store", "sqlite", "--only", "sync/dedup")
    *table, last = ended.stdout.splitlines()
    for row in json.loads(last)["rows"]:
        assert any(line.startswith(row["name"]) for line in table)


def test_an_unknown_suite_is_refused_with_the_ones_there_are() -> None:
    ended = run_benchmarks("speed")
    assert ended.returncode == 2
    assert "no suite 'speed'" in ended.stderr
    assert "claims" in ended.stderr


def test_help_names_the_suites() -> None:
    ended = run_benchmarks("--help")
    assert ended.returncode == 0
    assert "claims" in ended.stdout
    assert "--quick" in ended.stdout
