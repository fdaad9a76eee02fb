"""The benchmarks run and report; how fast anything is, no test says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import duly
from benchmarks import verify
from tests.support.sizes import sized

ROOT = Path(__file__).parents[2]


def run_benchmarks(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.wide
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


@pytest.mark.wide
def test_the_verify_suite_has_a_row_for_each_peer_measure_and_size() -> None:
    ended = run_benchmarks("verify", "--quick", *sized(("--only", "small"), whole=()))
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout.splitlines()[-1])
    assert report["suite"] == "verify"
    names = [row["name"] for row in report["rows"]]
    pairs = [("standardwebhooks", "signature"), ("standardwebhooks", "parsed")]
    pairs += [("stripe", "signature"), ("stripe", "parsed"), ("svix", "signature")]
    pairs += [("plan", "stripe"), ("plan", "standard-webhooks")]
    sizes = sized(("small",), whole=("small", "usual", "large"))
    assert sorted(names) == sorted(f"{a}/{b}/{size}" for a, b in pairs for size in sizes)
    for row in report["rows"]:
        assert set(row) == {"name", "ours", "peer", "ratio"}
        assert min(row["ours"], row["peer"], row["ratio"]) > 0


@pytest.mark.parametrize("side", ["ours", "peer"])
def test_a_side_that_takes_a_forged_delivery_for_genuine_ends_the_run(side: str) -> None:
    arrival = verify.arrived("stripe", 0)

    def strict(body: bytes) -> bool:
        return duly.verify("stripe", arrival.headers, body, verify.SECRET) is not None

    def gullible(body: bytes) -> bool:
        return True

    sides = (gullible, strict) if side == "ours" else (strict, gullible)
    with pytest.raises(AssertionError, match="forged"):
        arrival.duel("any/signature/small", *sides)


@pytest.mark.parametrize("answer", [{}, {"id": verify.IDENTIFIER}])
def test_a_side_that_reads_another_event_ends_the_run(answer: dict[str, str]) -> None:
    arrival = verify.arrived("stripe", 0)
    with pytest.raises(AssertionError, match="read wrongly"):
        verify.read("any/parsed/small", lambda _: answer, arrival.body)


def test_a_side_that_refuses_the_genuine_delivery_ends_the_run() -> None:
    with pytest.raises(AssertionError, match="refused"):
        verify.certain("any/signature/small", lambda _: False, b"").run(range(3))


@pytest.mark.parametrize("option", [("--store", "sqlite"), ("--lean",)])
def test_options_of_a_store_are_refused_where_there_is_none(option: tuple[str, ...]) -> None:
    ended = run_benchmarks("verify", *option)
    assert ended.returncode == 2
    assert "the suite 'verify' uses no store" in ended.stderr


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
    assert "verify" in ended.stdout
    assert "jobs" in ended.stdout
    assert "--quick" in ended.stdout


@pytest.mark.wide
def test_the_rejections_suite_compares_deliveries_with_a_flood_and_without() -> None:
    ended = run_benchmarks("rejections", "--quick", "--bytes", "60KB")
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout.splitlines()[-1])
    [row] = report["rows"]
    assert report["suite"] == "rejections"
    assert row["name"] == "sqlite/60KB"
    assert min(row["quiet"], row["silent"], row["told"], row["ratio"], row["flood"]) > 0
