"""The jobs benchmark measures what it says; how fast anything is, no test says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from benchmarks.working import aims, figures, showing
from benchmarks.working.contenders import COMMON, CONTENDERS, LIBRARIES, Library
from benchmarks.working.contest import Row, judge
from benchmarks.working.environments import Absent, python_for
from benchmarks.working.players.ours import takes_many
from benchmarks.working.processes import TurnFailed

from benchmarks import jobs

ROOT = Path(__file__).parents[2]


def run_suite(environment: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", "jobs", *options],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def row(name: str, **figures_of_it: float) -> Row:
    made = Row(name)
    made.add(figures_of_it)
    return made


@pytest.mark.long
def test_the_last_line_has_a_row_for_each_measure_and_a_ratio_for_each_comparison(
    postgres_server: str,
) -> None:
    options = ["--peer", "duly", "--peer", "ceiling-tx"]
    options += [part for measure in COMMON[1:] for part in ("--measure", measure)]
    ended = run_suite({**os.environ, jobs.SERVER: postgres_server}, "--quick", *options)
    assert ended.returncode == 0, ended.stderr
    *table, last = ended.stdout.splitlines()
    report = json.loads(last)
    assert set(report) == {"suite", "rows", "ratios", "absent"}
    assert report["absent"] == {}
    expected = ["duly/update", "duly/enqueue", "duly/latency", "ceiling-tx/update"]
    rows = {one["name"]: one for one in report["rows"]}
    assert sorted(rows) == sorted(expected)
    for name, one in rows.items():
        assert one["valid"]
        assert min(figure for what, figure in one.items() if what not in {"name", "dead"}) > 0
        assert any(line.startswith(name) for line in table)
    told = {ratio["name"]: ratio["aim"] for ratio in report["ratios"]}
    assert told == {"duly:ceiling-tx/update": 1.0}


def test_without_a_server_it_says_how_to_get_one() -> None:
    environment = {name: value for name, value in os.environ.items() if name != jobs.SERVER}
    ended = run_suite(environment, "--quick")
    assert ended.returncode == 2
    assert "`make bench SUITE=jobs` starts one" in ended.stderr


def test_a_library_is_compared_at_its_best_batch() -> None:
    rows = [
        row("duly/drain", rate=6000.0),
        row("pgqueuer-10/drain", rate=1000.0),
        row("pgqueuer-100/drain", rate=3000.0),
        row("oban/drain", rate=2000.0),
    ]
    found = {one.name: (one.ratio, one.met) for one in aims.ratios(rows)}
    assert found == {"duly:pgqueuer/drain": (2.0, True), "duly:oban/drain": (3.0, False)}


def test_a_bulk_handler_is_compared_with_what_others_do_one_by_one() -> None:
    rows = [
        row("duly/update", rate=1700.0),
        row("duly/update-bulk", rate=9000.0),
        row("pgqueuer-10/update", rate=1000.0),
        row("pgqueuer-100/update", rate=2000.0),
    ]
    found = {one.name: (one.ratio, one.met) for one in aims.ratios(rows)}
    assert found == {"duly:pgqueuer/update": (0.85, True), "duly:pgqueuer/update-bulk": (4.5, True)}


def test_what_is_enqueued_one_by_one_and_in_bulk_has_an_aim() -> None:
    rows = [
        row("duly/enqueue", rate=900.0, within=800.0, bulk=5000.0),
        row("pgqueuer-10/enqueue", rate=1000.0, within=1000.0, bulk=4000.0),
    ]
    found = {one.name: (one.ratio, one.met) for one in aims.ratios(rows)}
    assert found == {
        "duly:pgqueuer/enqueue": (0.9, False),
        "duly:pgqueuer/enqueue-within": (0.8, None),
        "duly:pgqueuer/enqueue-bulk": (1.25, True),
    }


def test_the_slowest_library_has_a_tenth_of_the_jobs() -> None:
    [dbos] = [one for one in CONTENDERS if one.name == "dbos"]
    assert dbos.counts({"jobs": 20_000, "samples": 100}) == {"jobs": 2_000, "samples": 100}


def test_a_bulk_row_is_left_out_with_the_reason_where_duly_has_no_bulk_handlers(
    postgres_server: str,
) -> None:
    environment = {**os.environ, jobs.SERVER: postgres_server}
    ended = run_suite(environment, "--quick", "--peer", "duly", "--measure", "update-bulk")
    if takes_many():
        [found] = json.loads(ended.stdout.splitlines()[-1])["rows"]
        assert (found["name"], found["valid"]) == ("duly/update-bulk", True)
    else:
        assert ended.returncode == 2
        assert "no row duly/update-bulk: is not there" in ended.stderr


def test_a_latency_is_compared_the_other_way_round() -> None:
    rows = [
        row("duly/latency", p50=0.004, p99=0.009),
        row("oban/latency", p50=0.006, p99=0.007),
        row("chancy/latency", p50=0.003, p99=0.02),
    ]
    found = {one.name: (round(one.ratio, 2), one.met) for one in aims.ratios(rows)}
    assert found == {"duly:oban/latency": (1.5, True), "duly:chancy/latency": (0.75, False)}


def test_a_contender_that_failed_is_shown_and_compared_with_nobody() -> None:
    failed = Row("oban/update", failure="oban began 7 jobs, and there were 8")
    rows = [row("duly/update", rate=10.0, wal_bytes=1.0, commits=1.0, dead=0.0), failed]
    assert list(aims.ratios(rows)) == []
    assert "INVALID: oban began 7 jobs" in showing.table("update", rows)


@pytest.mark.parametrize(("begun", "wrong"), [(7, 0), (9, 0), (8, 1)])
def test_a_job_that_was_not_done_once_is_no_rate(begun: int, wrong: int) -> None:
    judge("any", 8, 8, 0)
    with pytest.raises(TurnFailed, match="any"):
        judge("any", 8, begun, wrong)


def test_rows_that_were_not_updated_once_are_counted(empty_postgres_url: str) -> None:
    figures.make_tables(empty_postgres_url)
    figures.make_accounts(empty_postgres_url, 5)
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute("UPDATE accounts SET visits = visits + 1 WHERE id <> 4")
        connection.execute("UPDATE accounts SET visits = visits + 1 WHERE id = 2")
    assert figures.wrong_accounts(empty_postgres_url) == 2


def test_a_library_that_needs_a_newer_python_is_left_out_with_the_reason() -> None:
    found = python_for("any", Library(("nothing-to-install",), (9, 9)))
    assert isinstance(found, Absent)
    assert "needs Python 9.9" in found.reason


def test_no_library_of_a_peer_is_in_our_own_environment() -> None:
    assert {contender.player for contender in CONTENDERS} >= set(LIBRARIES)
    ours = (ROOT / "pyproject.toml").read_text()
    assert [name for name in LIBRARIES if f'"{name}' in ours] == []
